// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <tw/algorithms/plan.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/engine.hpp>
#include <vector>

namespace tw {

/// Position of a block in a tensor's memory, in elements. Blocks that a plan names as one run are adjacent.
struct BlockRange {
  int64_t begin;
  int64_t count;
};
using BlockLayout = std::vector<BlockRange>;

/// `count` elements as adjacent blocks of nearly equal size.
BlockLayout even_layout(int64_t count, int64_t blocks);

/// The memory that a rank's plan works on.
struct PlanMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  BlockLayout layout;                ///< blocks of the buffer that holds all of them
  bool input_is_one_block = false;   ///< this rank's block: all-gather
  bool output_is_one_block = false;  ///< this rank's block: reduce-scatter
  ElementType type = ElementType::uint8;
  ReduceOp op = ReduceOp::sum;  ///< not average
};

/// Executes `plan` step by step, with MPI messages.
/// @param ranks ranks of `comm`, indexed by the plan's ranks. @param sequence as in mpi::messages_transfer(); concurrent transfers must not share one
std::unique_ptr<mpi::Transfer> make_plan_transfer(const Communicator& comm, std::shared_ptr<const algorithms::Plan> plan, PlanMemory memory,
                                                  std::vector<int> ranks, int64_t sequence);

}  // namespace tw
