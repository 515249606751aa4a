// SPDX-License-Identifier: Apache-2.0
// One norm for the whole model, in which each element counts once, wherever its gradient lies. torch::nn::utils::clip_grad_norm_ sees the tensors of
// one rank: it is right where every rank holds all reduced gradients, and wrong for split layers, pipelines and sharded gradients.
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/gradients/model_parts.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// A rank's share of the gradients of one model.
struct GradientShare {
  std::vector<at::Tensor> counted;                 ///< whose elements this rank counts
  std::vector<at::Tensor> others = {};             ///< whose elements another rank counts; scaled like the rest
  std::vector<const Communicator*> sum_over = {};  ///< one after the other; none: this rank counts everything
};

/// Multiplies the gradients by min(1, max_norm / (norm + 1e-6)), where norm is the 2-norm of everything that is counted, summed in float64.
/// Collective over each of `sum_over`. @param max_norm positive.
/// @return norm, the same on all ranks. Gradients whose norm is not finite stay as they are. Ref: Pascanu et al. 2013.
double clip_gradient_norm(const GradientShare& share, double max_norm);

/// Gradients that are spread over the ranks of `comm`. @param gradients this rank's share: no element is on two ranks. May be none.
double clip_gradient_norm(const Communicator& comm, const std::vector<at::Tensor>& gradients, double max_norm);

/// The gradients of `module`, once they are reduced: those of an ordinary module, on every rank alike, and of one with split layers
/// (SlicedModule). Collective over the ranks that hold slices. Sharded gradients are clipped by ShardedOptimizer::clip_gradient_norm() or
/// FullySharded::clip_gradient_norm(), those of a pipeline by Pipeline::clip_grad_norm(), those of a LayerParallel by the function above.
/// @throws ContractError where no rank has a gradient, as after a sharded backward pass, and for a TrainableModel along axes of its own
double clip_gradient_norm(const torch::nn::Module& module, double max_norm);

/// The same for parameters from anywhere. @param parts see model_parts()
double clip_gradient_norm(const std::vector<NamedTensor>& parameters, const ModelPartsList& parts, double max_norm);

/// Whether another rank counts the elements of parameter `name`.
bool is_counted_elsewhere(const ModelPartsList& parts, const std::string& name);

}  // namespace tw
