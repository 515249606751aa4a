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

/// Where the blocks of a tensor lie in its memory, in elements. Those that a plan names as one run lie one after the other.
struct BlockRange {
  int64_t begin;
  int64_t count;
};
using BlockLayout = std::vector<BlockRange>;

/// `count` elements as blocks of nearly the same size, one after the other.
BlockLayout even_layout(int64_t count, int64_t blocks);

/// What the plan of a rank works on.
struct PlanMemory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  BlockLayout layout;                ///< of what holds all blocks
  bool input_is_one_block = false;   ///< this rank's: of an all-gather
  bool output_is_one_block = false;  ///< of a reduce-scatter
  ElementType type = ElementType::uint8;
  ReduceOp op = ReduceOp::sum;  ///< not average
};

/// Executes `plan`, step by step, by messages of MPI.
/// @param ranks of `comm`, by the plan's ranks. @param sequence as in mpi::messages_transfer(): several transfers may not share one
std::unique_ptr<mpi::Transfer> make_plan_transfer(const Communicator& comm, std::shared_ptr<const algorithms::Plan> plan, PlanMemory memory,
                                                  std::vector<int> ranks, int64_t sequence);

}  // namespace tw
