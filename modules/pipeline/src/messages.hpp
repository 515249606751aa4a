// SPDX-License-Identifier: Apache-2.0
// Tensors whose shape only the sender knows.
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw::pipeline {

/// Sends `tensor`; what it adds to `under_way` is to be waited for.
void send_any(const Communicator& comm, const at::Tensor& tensor, Rank to, std::vector<Work>& under_way);
at::Tensor receive_any(const Communicator& comm, Rank from);
/// `root`'s tensor on every rank. Collective.
at::Tensor broadcast_any(const Communicator& comm, const at::Tensor& tensor, Rank root);

}  // namespace tw::pipeline
