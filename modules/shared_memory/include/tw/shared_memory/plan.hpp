// SPDX-License-Identifier: Apache-2.0
// Collectives through shared memory, as plans: which rank copies or reduces which range when. Pure. `Exchange` executes them.
//
// Every rank has a step counter that only it advances, and two slots of staging memory that it writes and all read. A collective is a sequence of
// rounds, each using one slot of each rank, the two in turn:
//
//   next_round  wait until nobody can still read my slot of two rounds ago, which this round writes
//   post        add one to my counter: what I wrote before is for all to read
//   wait        until the counters of the others have reached mine
//   arrive      the first post and wait of a collective; its header states this rank's call and where its tensor lies
//
// All ranks post equally often in a round, so one counter per rank orders everything. A slot is rewritten two rounds later, and before that the
// writer waits for every other rank's first post of the round between, which follows all its reads of the earlier round.
#pragma once
#include <cstdint>
#include <tw/base/call.hpp>
#include <vector>

namespace tw::shared_memory {

/// Memory of one rank: the tensor it gave, the tensor that takes the result (of allreduce, reduce and broadcast they are the same), or its slot.
enum class Area : uint8_t { input, output, slot };

struct Step {
  enum class Kind : uint8_t { next_round, arrive, post, wait, copy, reduce };
  /// Where a reduced range goes: to my output; also to my slot, at the same place where the others keep theirs; or to everyone's output.
  enum class Spread : uint8_t { output, output_and_slot, slot, everyone };

  Kind kind = Kind::next_round;
  int rank = -1;            ///< wait: for this rank; -1: for all. copy: whose `from`
  Area from = Area::input;  ///< copy: of `rank`. reduce: of every other rank; mine is always my input
  Area to = Area::output;   ///< copy: mine
  int64_t from_begin = 0;   ///< in elements
  int64_t to_begin = 0;     ///< in elements
  int64_t own_begin = 0;    ///< reduce: where the range lies in my input
  int64_t count = 0;        ///< elements
  Spread spread = Spread::output;

  bool operator==(const Step&) const = default;
};

/// How data gets across.
enum class Mode : uint8_t {
  staged,  ///< through the slots, for ordinary memory
  direct,  ///< every rank's input lies in shared memory; for allreduce, reduce_scatter, allgather and broadcast
};

struct PlanOptions {
  int64_t slot_elements = 0;  ///< what a slot holds; at least one for each rank
  int64_t flat_elements = 0;  ///< an allreduce up to this size is reduced by every rank for itself: more work, one wait less
  int64_t alignment = 1;      ///< parts begin at multiples of this many elements, so that no two ranks write one cache line
};

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const noexcept { return end - begin; }
};

/// The part of rank `part` when `whole` is divided among `parts` ranks; parts cover it in order and may be empty.
Range part_of(Range whole, int part, int parts, int64_t alignment);

/// The plan of one rank for one collective: barrier, broadcast, allreduce, reduce, allgather or reduce_scatter.
class Plan {
 public:
  /// @param call its count is that of the input, of allgather and reduce_scatter too; of reduce_scatter a multiple of `ranks`.
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
  int64_t chunk_ = 0;    // elements of `divided_` in a round
  int64_t divided_ = 0;  // elements that the rounds divide among themselves
  int64_t rounds_ = 1;
  std::vector<Step> steps_;
};

}  // namespace tw::shared_memory
