// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/gradients/trainable_model.hpp>

namespace tw::tensor_parallel {

/// Adds the mesh axis `tensor` to the axes() of a model with split modules, whose ranks along this axis then count as holding one model together.
/// Checkpoints and optimizers then treat each rank's split parameters as slices.
///
/// ```
/// Trainer trainer(mesh, model_of(tensor_parallel::split_model(net)), optimizer, ...);        // mesh: data x tensor
/// Trainer trainer(mesh, model_of(tensor_parallel::split_model(pipeline)), optimizer, ...);   // data x tensor x stage
/// ```
/// @param module a SplitModule, or a module that contains some. @param model trains `module`, with the same parameter names
std::shared_ptr<TrainableModel> split_model(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<TrainableModel> model);

/// split_model() for a module in one of LibTorch's module holders.
template <class Holder>
  requires requires(Holder holder) { holder.ptr(); }
std::shared_ptr<TrainableModel> split_model(Holder holder) {
  return split_model(holder.ptr(), whole_model(holder.ptr(), [holder](const at::Tensor& inputs) mutable { return holder->forward(inputs); }));
}

/// split_model() for a module that is itself a TrainableModel, such as a pipeline::Pipeline whose stages have split modules.
template <class Trained>
std::shared_ptr<TrainableModel> split_model(const std::shared_ptr<Trained>& trained) {
  return split_model(trained, trained);
}

}  // namespace tw::tensor_parallel
