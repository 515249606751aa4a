// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/gradients/reduction.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// Returns the loss over the samples of all ranks, bit for bit the same on every rank. Use it for decisions that depend on the loss: the closure of
/// LBFGS, a learning rate that drops on a plateau, or early stopping. Do not differentiate it: call `loss.backward()` on this rank's loss, and
/// DataParallel reduces the gradients.
///
/// ```
/// lbfgs.step([&] {
///   lbfgs.zero_grad();
///   const at::Tensor loss = loss_of(model->forward(x), y);       // of this rank's samples
///   loss.backward();                                             // DataParallel reduces the gradients
///   return tw::reduced(comm, loss, tw::Reduction::mean);         // and all ranks make the same number of passes
/// });
/// ```
/// Collective: 16 bytes per rank. @param loss one element. @param reduction the gradients' reduction. @param samples the number of this rank's
/// samples. Only Reduction::sample_weighted uses this number; if it is 0, `loss` is ignored. @return shape [], float64, without a graph
at::Tensor reduced(const Communicator& comm, const at::Tensor& loss, Reduction reduction, int64_t samples = 1);

}  // namespace tw
