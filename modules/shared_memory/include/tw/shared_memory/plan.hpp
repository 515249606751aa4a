// SPDX-License-Identifier: Apache-2.0
// Plans of collectives through shared memory: which rank copies or reduces which range, and when. Pure. `Exchange` (channel.hpp) executes them.
// Every rank has a step counter that only it advances, and two slots of staging memory that it writes and all ranks read. A collective is a sequence
// of rounds. Each round uses one slot per rank; successive rounds alternate between the two slots. In addition to copies and reductions, a round has
// these steps:
//
//   next_round  wait until no rank can still be reading the slot that I wrote two rounds ago, which this round rewrites
//   post        increment my counter, which publishes my earlier writes
//   wait        wait until the counters of the other ranks, or of one rank, have reached mine
//   arrive      the first post and wait of a collective, which also publishes this rank's call and the place of its tensor
//
// All ranks post the same number of times in a round, so one counter per rank orders everything. A rank rewrites a slot two rounds later. Before it
// does, it waits for every other rank's first post of the round in between. That post follows all reads of the slot by the other rank.
#pragma once
#include <cstdint>
#include <tw/base/call.hpp>
#include <vector>

namespace tw::shared_memory {

/// Memory of one rank: its input tensor, its output tensor (for some collectives the same; see Exchange), or its slot.
enum class Area : uint8_t { input, output, slot };

struct Step {
  enum class Kind : uint8_t { next_round, arrive, post, wait, copy, reduce };
  /// Destination of a reduced range: my output (at `to_begin`), both my output and my slot, my slot (at `from_begin`), or all ranks' tensors in
  /// place.
  enum class Spread : uint8_t { output, output_and_slot, slot, everyone };

  Kind kind = Kind::next_round;
  int rank = -1;            ///< wait: the rank to wait for, or -1 for all ranks. copy: the rank whose area `from` is copied
  Area from = Area::input;  ///< copy: source area of `rank`. reduce: source area of every other rank; my source is always my input
  Area to = Area::output;   ///< copy: my destination area
  int64_t from_begin = 0;   ///< source offset in elements
  int64_t to_begin = 0;     ///< destination offset in elements
  int64_t own_begin = 0;    ///< reduce: offset of the range in my input
  int64_t count = 0;        ///< elements
  Spread spread = Spread::output;

  bool operator==(const Step&) const = default;
};

/// The path of the data.
enum class Mode : uint8_t {
  staged,  ///< through the slots, for ordinary memory
  direct,  ///< from tensor to tensor, if all inputs lie in one window; only allreduce (in place), reduce_scatter, allgather, broadcast
};

struct PlanOptions {
  int64_t slot_elements = 0;  ///< capacity of a slot; at least one element per rank
  int64_t flat_elements = 0;  ///< size up to which every rank computes the whole allreduce itself: more work, one wait less
  int64_t alignment = 1;      ///< alignment of parts in elements, so that no two ranks write to the same cache line
};

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const noexcept { return end - begin; }
};

/// Part number `part` of `whole`, which is divided into `parts` parts. The parts cover `whole` in order; a part may be empty. Boundaries between
/// parts are multiples of `alignment`, counted from `whole.begin`.
Range part_of(Range whole, int part, int parts, int64_t alignment);

/// The plan of one rank for one collective: barrier, broadcast, allreduce, reduce, allgather or reduce_scatter.
class Plan {
 public:
  /// @param call `call.count` is the number of elements of the input; for reduce_scatter a multiple of `ranks`.
  Plan(const Call& call, Mode mode, int rank, int ranks, const PlanOptions& options);

  int64_t rounds() const noexcept { return rounds_; }
  /// The steps of round `round`, in order.
  const std::vector<Step>& round(int64_t round);

 private:
  void plan_allreduce(Range chunk, bool first);
  void plan_flat_allreduce(Range chunk, bool first);
  void plan_reduce_scatter(Range chunk, bool first);
  void plan_allgather(Range chunk, bool first);
  void plan_broadcast(Range chunk, bool first);
  void plan_direct();

  void add(Step::Kind kind, int rank = -1);
  void copy(Area from, int rank, int64_t from_begin, Area to, int64_t to_begin, int64_t count);
  void reduce(Area from, int64_t from_begin, int64_t own_begin, int64_t to_begin, int64_t count, Step::Spread spread);
  void sync(bool first);

  Call call_;
  Mode mode_;
  int rank_;
  int ranks_;
  PlanOptions options_;
  int64_t chunk_ = 0;    // elements per round
  int64_t divided_ = 0;  // elements that are divided among the rounds
  int64_t rounds_ = 1;
  std::vector<Step> steps_;
};

}  // namespace tw::shared_memory
