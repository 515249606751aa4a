// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tw/data_parallel/fwd.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <tw/train/objective.hpp>
#include <vector>

namespace tw::layer_parallel {
class LayerParallel;
}
namespace tw::pipeline {
class Pipeline;
}

namespace tw::train {

/// How ranks hold a model together, where each has a part of its parameters and buffers. forward() is then collective over them, takes the same
/// inputs on all of them, and gives all of them the output.
struct ModelParts {
  std::string axis;                                                 ///< of the trainer's mesh
  std::function<std::vector<NamedShard>()> shards;                  ///< this rank's parameters and buffers, for checkpoints; shares memory
  std::function<std::vector<OptimizedTensor>()> optimized_tensors;  ///< the same of the parameters, for the optimizer
  std::function<std::vector<NamedTensor>()> whole;                  ///< parameters and buffers of all parts, on the first rank. Collective
  /// The mean loss of a batch, whose backward() gives the gradients: for parts that make both passes in one, whose forward() is for evaluation alone.
  /// Collective over the parts. May be empty
  std::function<at::Tensor(const at::Tensor& inputs, const at::Tensor& targets, const LossFunction& loss)> loss = {};
  std::function<void(int64_t number)> begin_pass = {};  ///< called before each training pass; random layers depend on it. May be empty
  /// From now on, tells of what happens inside of a pass, for the timeline. @param name a literal. May be empty.
  using Observer = std::function<void(const char* name, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;
  std::function<void(Observer)> observe = {};
};

/// What is trained, wherever its parameters come from.
struct Model {
  std::vector<NamedTensor> parameters;                          ///< those that require a gradient are trained
  std::vector<NamedTensor> buffers;                             ///< such as running means; rank 0's count
  std::function<at::Tensor(const at::Tensor& inputs)> forward;  ///< [n, ...] -> [n, ...], n > 0; ranks without samples do not call it
  std::function<void(bool training)> set_training = [](bool) {};
  std::vector<std::string> empty_submodules = {};   ///< such as activations, whose names LibTorch wants in its files
  std::map<std::string, std::string> aliases = {};  ///< further names of tied tensors, each to the one that is listed

  std::vector<std::string> sparse = {};  ///< names of parameters whose gradients are sparse
  std::optional<ModelParts> parts = {};  ///< none: each rank has the whole model

  /// Parameters and then buffers.
  std::vector<NamedTensor> all_tensors() const;
  /// Elements of all trained parameters.
  int64_t trained_elements() const;
  /// The tensors of `parameters` alone, for an optimizer.
  std::vector<at::Tensor> tensors() const;
};

/// An ordinary module. @param forward calls it. Tied tensors appear once, under their first name.
Model model_of(const std::shared_ptr<torch::nn::Module>& module, std::function<at::Tensor(const at::Tensor&)> forward);

/// The same for LibTorch's holders, such as `model_of(models::LeNet())`.
template <class Holder>
Model model_of(Holder holder) {
  return model_of(holder.ptr(), [holder](const at::Tensor& inputs) mutable { return holder->forward(inputs); });
}

/// A network whose layers are in parallel along the mesh's axis `layer`. Random layers draw the same along the data axis.
Model model_of(const std::shared_ptr<layer_parallel::LayerParallel>& net);

/// A model in stages along the mesh's axis `stage`. All ranks of the axis take the same samples; Hook::on_forward() sees no outputs.
Model model_of(const std::shared_ptr<pipeline::Pipeline>& pipeline);

/// A TorchScript file, such as Python's torch.jit.script(net).save(path) writes; its forward takes and gives one tensor.
/// @throws FileError when it cannot be read or has no such forward.
Model load_torchscript(const std::filesystem::path& path);

}  // namespace tw::train
