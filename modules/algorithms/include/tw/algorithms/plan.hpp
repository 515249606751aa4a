// SPDX-License-Identifier: Apache-2.0
// Collectives over messages, as plans: which rank sends which part of a tensor to which rank in which step. One plan per rank; `comm` executes it.
//
// A tensor is divided into blocks of nearly equal size. A rank executes its steps in order: all messages of a step are in flight at once, and when
// all have ended, it works on the data that it holds.
#pragma once
#include <cstdint>
#include <string_view>
#include <tw/base/call.hpp>
#include <vector>

namespace tw::algorithms {

/// Memory of a rank. Of all-reduce and broadcast there is no `input`: they work in `output`.
enum class Area : uint8_t {
  input,
  output,
  scratch,  ///< slots, each as large as the largest block
};

/// Blocks one after the other. The input of an all-gather and the output of a reduce-scatter are one block, this rank's; what else there is of input
/// and output holds all blocks, each in its place.
struct Run {
  Area area = Area::output;
  int64_t block = 0;  ///< the first one
  int64_t count = 1;
  int64_t slot = 0;  ///< of scratch: where the first one lies; slots that follow are used as it takes
  bool operator==(const Run&) const = default;
};

struct Message {
  int peer = 0;
  Run run;
  bool operator==(const Message&) const = default;
};

/// `to` becomes a op b, element by element, or a copy of a.
struct Local {
  enum class Kind : uint8_t { copy, reduce };
  Kind kind = Kind::copy;
  Run a;
  Run b;  ///< of a reduction
  Run to;
  bool operator==(const Local&) const = default;
};

struct Step {
  std::vector<Message> sends;
  std::vector<Message> receives;
  std::vector<Local> then;
  bool operator==(const Step&) const = default;
};

struct Plan {
  int64_t blocks = 1;         ///< into which a tensor is divided
  int64_t scratch_slots = 0;  ///< additional memory, in slots of Area::scratch
  std::vector<Step> steps;
  bool operator==(const Plan&) const = default;
};

enum class Algorithm : uint8_t {
  ring,                ///< every rank sends to the next one alone: the fewest bytes, the most steps
  recursive_doubling,  ///< all of the tensor, to partners at distances 1, 2, 4...: the fewest steps, the most bytes
  circulant,           ///< halves, quarters, eighths... to ranks at such distances: few steps and the fewest bytes
  tree,                ///< binomial: each rank that has got it sends it on to others
  chain,               ///< block after block from rank to rank
  double_tree,         ///< block after block through two binary trees, no rank an inner node of both: few steps and the fewest bytes
  pairwise,            ///< with every other rank in turn
  bruck,               ///< what goes far goes together, in hops of 1, 2, 4...
};

inline constexpr int algorithm_count = 8;

/// Such as "recursive_doubling".
std::string_view name_of(Algorithm algorithm) noexcept;

/// One rank's part in a collective.
struct Task {
  Collective collective = Collective::allreduce;
  int ranks = 1;
  int rank = 0;
  int root = 0;           ///< of broadcast and reduce
  int64_t pipelined = 1;  ///< blocks that `chain` and `double_tree` cut the tensor into
};

/// Whether `algorithm` does this `collective`. Where it does, it does it on any number of ranks.
bool can(Algorithm algorithm, Collective collective) noexcept;

/// The plan of `task.rank`. @throws ContractError where the algorithm does not do the collective.
Plan make_plan(Algorithm algorithm, const Task& task);

}  // namespace tw::algorithms
