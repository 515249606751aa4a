// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/gradients/reduction.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// The loss over the samples of all ranks, the same bits on each: for whatever decides by it, such as the closure of LBFGS, a rate that falls on a
/// plateau, or an early end. Gradients are DataParallel's: call `loss.backward()` with this rank's loss.
///
/// ```
/// lbfgs.step([&] {
///   lbfgs.zero_grad();
///   const at::Tensor loss = loss_of(model->forward(x), y);       // of this rank's samples
///   loss.backward();                                             // DataParallel reduces the gradients
///   return tw::reduced(comm, loss, tw::Reduction::mean);         // and all ranks make the same number of passes
/// });
/// ```
/// Collective: 16 bytes a rank. @param loss one element. @param reduction that of the gradients. @param samples the n_r of
/// Reduction::sample_weighted; where it is 0, `loss` does not count. @return shape [], float64, without a graph
at::Tensor reduced(const Communicator& comm, const at::Tensor& loss, Reduction reduction, int64_t samples = 1);

}  // namespace tw
