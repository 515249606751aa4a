// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/reduction.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Reduces `tensor.grad()` of each parameter over all ranks, in place, in flat buckets. Collective. Use it for hand-written updates. `DataParallel`
/// is faster, because it keeps its buffers from step to step.
/// @param parameters those that require no gradient are skipped. A gradient that is missing on this rank counts as zero; one that is missing on all
/// ranks stays missing.
/// @param samples number of this rank's samples, for Reduction::sample_weighted.
/// @param parts see ReducerOptions::parts; for a model with split layers, `model_parts(*model)`.
/// @throws ContractError on every rank, naming ranks and parameter, when names, shapes or dtypes differ between ranks.
void allreduce_gradients(const Communicator& comm, const std::vector<NamedTensor>& parameters, Reduction reduction, int64_t samples = 1,
                         const ModelPartsList& parts = {});

/// The same for `module.named_parameters()`.
void allreduce_gradients(const Communicator& comm, const NamedParameters& parameters, Reduction reduction, int64_t samples = 1,
                         const ModelPartsList& parts = {});

}  // namespace tw
