// SPDX-License-Identifier: Apache-2.0
// Plans of collectives that consist of messages. A plan lists what one rank does in each step: which part of a tensor it sends to, or receives from,
// which rank. The module `comm` executes plans.
//
// A tensor is divided into blocks of nearly equal size. A rank executes its steps in order. All messages of a step are in flight at once. When all
// have completed, the rank executes the step's local operations.
#pragma once
#include <cstdint>
#include <string_view>
#include <tw/base/call.hpp>
#include <vector>

namespace tw::algorithms {

/// Memory of a rank. All-reduce and broadcast do not use `input`; they work in place in `output`.
enum class Area : uint8_t {
  input,
  output,
  scratch,  ///< temporary memory: slots, each as large as the largest block
};

/// Consecutive blocks. The input of an all-gather and the output of a reduce-scatter consist of this rank's block only. All other inputs and outputs
/// hold all blocks, each in its place.
struct Run {
  Area area = Area::output;
  int64_t block = 0;  ///< index of the first block
  int64_t count = 1;
  int64_t slot = 0;  ///< in scratch, the slot of the first block; the other blocks use the following slots
  bool operator==(const Run&) const = default;
};

struct Message {
  int peer = 0;
  Run run;
  bool operator==(const Message&) const = default;
};

/// A local operation: `to` becomes `a` op `b`, element by element, or a copy of `a`.
struct LocalOperation {
  enum class Kind : uint8_t { copy, reduce };
  Kind kind = Kind::copy;
  Run a;
  Run b;  ///< only for a reduction
  Run to;
  bool operator==(const LocalOperation&) const = default;
};

struct Step {
  std::vector<Message> sends;
  std::vector<Message> receives;
  std::vector<LocalOperation> local_operations;
  bool operator==(const Step&) const = default;
};

struct Plan {
  int64_t blocks = 1;         ///< number of blocks into which a tensor is divided
  int64_t scratch_slots = 0;  ///< number of slots that Area::scratch needs
  std::vector<Step> steps;
  bool operator==(const Plan&) const = default;
};

enum class Algorithm : uint8_t {
  ring,                ///< every rank sends only to the next one: fewest bytes, most steps
  recursive_doubling,  ///< exchanges the whole tensor with ranks at distances 1, 2, 4...: fewest steps, most bytes
  circulant,           ///< exchanges 1/2, 1/4, 1/8... of the tensor, at half the distance each time: few steps, fewest bytes
  tree,                ///< binomial tree: each rank that has received the tensor forwards it to others; a reduce in reverse
  chain,               ///< pipelines blocks from rank to rank
  double_tree,         ///< pipelines blocks through two binary trees; no rank is an inner node of both: few steps, fewest bytes
  pairwise,            ///< exchanges with every other rank in turn
  bruck,               ///< forwards blocks in hops of 1, 2, 4... ranks, all blocks of a hop in one message
};

inline constexpr int algorithm_count = 8;

/// The name of an algorithm, such as "recursive_doubling".
std::string_view name_of(Algorithm algorithm) noexcept;

/// One rank's part in a collective.
struct Task {
  Collective collective = Collective::allreduce;
  int ranks = 1;
  int rank = 0;
  int root = 0;           ///< for broadcast and reduce
  int64_t pipelined = 1;  ///< number of blocks for `chain` and `double_tree`
};

/// Whether `algorithm` supports `collective`; if it does, then on any number of ranks.
bool can(Algorithm algorithm, Collective collective) noexcept;

/// The plan of `task.rank`. @throws ContractError if the algorithm does not support the collective, or a number in `task` is out of range.
Plan make_plan(Algorithm algorithm, const Task& task);

}  // namespace tw::algorithms
