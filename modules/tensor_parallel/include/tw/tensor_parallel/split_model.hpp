// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/gradients/trainable_model.hpp>

namespace tw::tensor_parallel {

/// A model with split modules, as one that ranks along the axis `tensor` hold together, in addition to the axes that it has already: for checkpoints
/// and optimizers, each rank's split parameters are slices.
///
/// ```
/// Trainer trainer(mesh, model_of(tensor_parallel::split_model(net)), optimizer, ...);        // a mesh data x tensor
/// Trainer trainer(mesh, model_of(tensor_parallel::split_model(pipeline)), optimizer, ...);   // data x tensor x stage
/// ```
/// @param module a SplitModule, or one that contains some. @param model trains `module`, whose parameters it knows by the same names
std::shared_ptr<TrainableModel> split_model(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<TrainableModel> model);

/// The same of LibTorch's holders.
template <class Holder>
  requires requires(Holder holder) { holder.ptr(); }
std::shared_ptr<TrainableModel> split_model(Holder holder) {
  return split_model(holder.ptr(), whole_model(holder.ptr(), [holder](const at::Tensor& inputs) mutable { return holder->forward(inputs); }));
}

/// The same of a module that knows how it is trained, such as a pipeline::Pipeline whose stages have split modules.
template <class Trained>
std::shared_ptr<TrainableModel> split_model(const std::shared_ptr<Trained>& trained) {
  return split_model(trained, trained);
}

}  // namespace tw::tensor_parallel
