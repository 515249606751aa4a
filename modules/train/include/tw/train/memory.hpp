// SPDX-License-Identifier: Apache-2.0
// A rank's memory by use.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw::train {

enum class MemoryUse {
  parameters,   ///< the parameters that the rank keeps from step to step: all, its slices, or its part of the model
  gradients,    ///< gradients of its parameters, and their buckets
  optimizer,    ///< the optimizer's state of each parameter, float32 master weights, anchors and momenta of DiLoCo
  buffers,      ///< the model's buffers; buffers for gathering, reducing or averaging; shards of a parameter server; a checkpoint being written
  activations,  ///< all other memory of LibTorch: activations for backward passes, batches, temporaries (also of the optimizer's step)
};
constexpr size_t memory_uses = 5;

/// The name of a use, such as "parameters".
const char* name_of(MemoryUse use);

/// Bytes of memory, by use.
struct MemoryByUse {
  std::array<int64_t, memory_uses> bytes{};

  int64_t& operator[](MemoryUse use) noexcept { return bytes[static_cast<size_t>(use)]; }
  int64_t operator[](MemoryUse use) const noexcept { return bytes[static_cast<size_t>(use)]; }
  int64_t together() const noexcept;
  bool operator==(const MemoryByUse&) const = default;
};

/// The moment at which a rank held the most memory.
struct MemoryPeak {
  MemoryByUse held;
  std::string during;  ///< "forward", "backward", "update", "evaluation" or "checkpoint"; empty: nothing was counted
  int64_t step = 0;    ///< number of updates before this moment
};

/// The rank with the highest peak. @param by_rank peaks of at least one rank
int worst_rank(const std::vector<MemoryPeak>& by_rank);

/// A text such as "at most 12.3 MiB, on rank 1 (backward): parameters 1.6, gradients 1.6, optimizer 3.3, buffers 0.0, activations 5.8", about the
/// rank with the highest peak. @param by_rank peaks of at least one rank
std::string memory_text(const std::vector<MemoryPeak>& by_rank);

/// The peaks of all ranks, in rank order, on every rank. Collective. @param mine this rank's peak
std::vector<MemoryPeak> peaks_of_ranks(const Communicator& comm, const MemoryPeak& mine);

/// A rank's memory from `time` until the next sample.
struct MemorySample {
  std::chrono::steady_clock::time_point time;
  const char* during;
  MemoryByUse held;
};

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
