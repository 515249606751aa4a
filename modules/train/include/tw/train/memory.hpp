// SPDX-License-Identifier: Apache-2.0
// The memory of all ranks by use.
#pragma once
#include <cstdint>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/memory_use.hpp>
#include <vector>

namespace tw::train {

/// The rank with the highest peak. @param by_rank peaks of at least one rank
int worst_rank(const std::vector<MemoryPeak>& by_rank);

/// A text such as "at most 12.3 MiB, on rank 1 (backward): parameters 1.6, gradients 1.6, optimizer 3.3, buffers 0.0, activations 5.8", about the
/// rank with the highest peak. @param by_rank peaks of at least one rank
std::string memory_text(const std::vector<MemoryPeak>& by_rank);

/// The peaks of all ranks, in rank order, on every rank. Collective. @param mine this rank's peak
std::vector<MemoryPeak> peaks_of_ranks(const Communicator& comm, const MemoryPeak& mine);

/// A rank's memory over the course of a step.
struct StepMemory {
  struct Moment {
    double seconds = 0;  ///< since the beginning of the step
    std::string during;
    MemoryByUse held;  ///< memory until the next moment
  };
  int rank = 0;
  int64_t step = 0;  ///< number of updates before this step
  std::vector<Moment> moments;
};

/// The memory of rank `root` during a step, on every rank. Collective. @param step, samples used on `root` only
StepMemory step_of_rank(const Communicator& comm, Rank root, int64_t step, const std::vector<MemorySample>& samples);

}  // namespace tw::train
