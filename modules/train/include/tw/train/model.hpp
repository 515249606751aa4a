// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <tw/gradients/trainable_model.hpp>
#include <vector>

namespace tw::train {

/// A model for the trainer, with its tensors on this rank; made by model_of(). Copies share the TrainableModel.
struct Model : ModelTensors {
  std::shared_ptr<TrainableModel> trained;
  std::vector<std::string> empty_submodules = {};  ///< names of submodules without tensors, such as activations, which LibTorch expects in its files
  /// Whether layers, such as SyncBatchNorm, communicate in each pass with ranks that use other samples. Ranks without samples then join each pass, in
  /// an IdlePass.
  bool exchanges_in_passes = false;

  /// Whether several ranks hold the model together; otherwise each rank has all of it.
  bool is_in_parts() const { return !trained->axes().empty(); }
  /// See TrainableModel::forward(); ranks without samples do not call it.
  at::Tensor forward(const at::Tensor& inputs) const { return trained->forward(inputs); }
  /// See TrainableModel::evaluate().
  at::Tensor evaluate(const at::Tensor& inputs) const { return trained->evaluate(inputs); }
  void set_training(bool training) const { trained->set_training(training); }
};

/// Returns a Model for any TrainableModel, such as a pipeline::Pipeline, a layer_parallel::LayerParallel, or your own.
Model model_of(const std::shared_ptr<TrainableModel>& model);

/// Returns a Model for an ordinary module. @param forward calls the module. Tied tensors appear once, under their first name.
Model model_of(const std::shared_ptr<torch::nn::Module>& module, std::function<at::Tensor(const at::Tensor&)> forward);

/// Returns a Model for a module holder of LibTorch, such as `model_of(models::LeNet())`.
template <class Holder>
  requires requires(Holder holder) { holder.ptr(); }
Model model_of(Holder holder) {
  return model_of(holder.ptr(), [holder](const at::Tensor& inputs) mutable { return holder->forward(inputs); });
}

/// Loads a TorchScript file, as written by Python's torch.jit.script(net).save(path). The script's forward must take and return one tensor. @throws
/// FileError if the file cannot be read or has no such forward.
Model load_torchscript(const std::filesystem::path& path);

}  // namespace tw::train
