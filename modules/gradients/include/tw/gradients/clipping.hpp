// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// Multiplies gradients that are spread over ranks by min(1, max_norm / (norm + 1e-6)), where norm is the 2-norm of all of them together, summed in
/// float64. Collective. Gradients that all ranks hold whole, such as DataParallel's, need torch::nn::utils::clip_grad_norm_ and nothing of ours.
/// @param gradients this rank's share: no element is on two ranks. May be none. @param max_norm positive.
/// @return norm, the same on all ranks; what is not finite stays as it is. Ref: Pascanu et al. 2013.
double clip_gradient_norm(const Communicator& comm, const std::vector<at::Tensor>& gradients, double max_norm);

}  // namespace tw
