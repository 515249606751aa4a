// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tw/data_parallel/fwd.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::train {

/// What is trained, wherever its parameters come from.
struct Model {
  std::vector<NamedTensor> parameters;                          ///< those that require a gradient are trained
  std::vector<NamedTensor> buffers;                             ///< such as running means; rank 0's count
  std::function<at::Tensor(const at::Tensor& inputs)> forward;  ///< [n, ...] -> [n, ...], n > 0; ranks without samples do not call it
  std::function<void(bool training)> set_training = [](bool) {};
  std::vector<std::string> empty_submodules = {};   ///< such as activations, whose names LibTorch wants in its files
  std::map<std::string, std::string> aliases = {};  ///< further names of tied tensors, each to the one that is listed

  std::vector<std::string> sparse = {};  ///< names of parameters whose gradients are sparse

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

/// A TorchScript file, such as Python's torch.jit.script(net).save(path) writes; its forward takes and gives one tensor.
/// @throws FileError when it cannot be read or has no such forward.
Model load_torchscript(const std::filesystem::path& path);

}  // namespace tw::train
