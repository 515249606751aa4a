// SPDX-License-Identifier: Apache-2.0
// Gradient clipping by one norm of the whole model, which counts each element once, whichever rank holds it. torch::nn::utils::clip_grad_norm_ uses
// the tensors of one rank. That is correct if every rank holds all reduced gradients. For split layers, pipelines, layers in parallel and sharded
// gradients it would be wrong, and throws; see part_gradients.hpp.
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/gradients/model_parts.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// A rank's share of the gradients of one model.
struct GradientShare {
  std::vector<at::Tensor> counted;                 ///< gradients whose elements this rank counts in the norm
  std::vector<at::Tensor> others = {};             ///< gradients on this rank that another rank counts; they are scaled, too
  std::vector<const Communicator*> sum_over = {};  ///< communicators over which the norm is summed, in turn; empty: this rank counts everything
};

/// Multiplies the gradients by min(1, max_norm / (norm + 1e-6)), where norm is the 2-norm of all counted elements, summed in float64. Collective over
/// each of `sum_over`. @param max_norm positive.
/// @return norm, the same on all ranks. If it is not finite, the gradients stay unchanged. Ref: Pascanu et al. 2013.
double clip_gradient_norm(const GradientShare& share, double max_norm);

/// Clips gradients that are spread over the ranks of `comm`. Collective. @param gradients this rank's share, which may be empty; no element may be on
/// two ranks
double clip_gradient_norm(const Communicator& comm, const std::vector<at::Tensor>& gradients, double max_norm);

/// Clips the reduced gradients of `module`: an ordinary module, equal on every rank, or one with split layers (SlicedModule). Collective over the
/// ranks that hold slices. For other gradients, use:
///
///     sharded gradients   ShardedOptimizer::clip_gradient_norm() or FullySharded::clip_gradient_norm()
///     a Pipeline          Pipeline::clip_grad_norm()
///     a LayerParallel     clip_gradient_norm(comm, gradients, max_norm); with split layers ParallelModel::clip_grad_norm()
///
/// @throws ContractError if no rank has a gradient, such as after a sharded backward pass, or if `module` is a TrainableModel whose axes() are not
/// empty
double clip_gradient_norm(const torch::nn::Module& module, double max_norm);

/// The same for a list of parameters. @param parts see model_parts()
double clip_gradient_norm(const std::vector<NamedTensor>& parameters, const ModelPartsList& parts, double max_norm);

/// Whether another rank counts the elements of parameter `name`.
bool is_counted_elsewhere(const ModelPartsList& parts, const std::string& name);

}  // namespace tw
