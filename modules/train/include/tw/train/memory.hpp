// SPDX-License-Identifier: Apache-2.0
// What a rank's memory is for.
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
  parameters,   ///< what the rank keeps of them from step to step: all, its slices, or its part of a model in parts
  gradients,    ///< those of its parameters, and the buckets in which they lie
  optimizer,    ///< what is remembered of each parameter: the optimizer's state, float32 copies of half parameters, anchors and momenta of DiLoCo
  buffers,      ///< the model's; those to gather, reduce or average in; the shards of a parameter server; a checkpoint being written
  activations,  ///< all else that LibTorch holds: what backward passes need, batches, intermediate results, those of the optimizer's step too
};
constexpr size_t memory_uses = 5;

/// Such as "parameters".
const char* name_of(MemoryUse use);

/// Bytes.
struct MemoryByUse {
  std::array<int64_t, memory_uses> bytes{};

  int64_t& operator[](MemoryUse use) noexcept { return bytes[static_cast<size_t>(use)]; }
  int64_t operator[](MemoryUse use) const noexcept { return bytes[static_cast<size_t>(use)]; }
  int64_t together() const noexcept;
  bool operator==(const MemoryByUse&) const = default;
};

/// The moment at which a rank held most.
struct MemoryPeak {
  MemoryByUse held;
  std::string during;  ///< "forward", "backward", "update", "evaluation", "checkpoint"; empty: nothing was counted
  int64_t step = 0;    ///< updates before it
};

/// Which held most. @param by_rank at least one
int worst_rank(const std::vector<MemoryPeak>& by_rank);

/// "at most 12.3 MiB, on rank 1 (backward): parameters 1.6, gradients 1.6, optimizer 3.3, buffers 0.0, activations 5.8", of the rank that held most.
/// @param by_rank at least one
std::string memory_text(const std::vector<MemoryPeak>& by_rank);

/// By rank, on every rank. Collective.
std::vector<MemoryPeak> peaks_of_ranks(const Communicator& comm, const MemoryPeak& mine);

/// What a rank held from a moment on.
struct MemorySample {
  std::chrono::steady_clock::time_point time;
  const char* during;
  MemoryByUse held;
};

/// How a step went on a rank.
struct StepMemory {
  struct Moment {
    double seconds = 0;  ///< from its beginning
    std::string during;
    MemoryByUse held;  ///< until the next moment
  };
  int rank = 0;
  int64_t step = 0;  ///< updates before it
  std::vector<Moment> moments;
};

/// What rank `root` held, on every rank. Collective. @param step, samples of that rank
StepMemory step_of_rank(const Communicator& comm, Rank root, int64_t step, const std::vector<MemorySample>& samples);

}  // namespace tw::train
