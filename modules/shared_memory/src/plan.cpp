// SPDX-License-Identifier: Apache-2.0
#include <tw/base/numbers.hpp>
#include <tw/shared_memory/plan.hpp>

#include <algorithm>

namespace tw::shared_memory {

Range part_of(Range whole, int part, int parts, int64_t alignment) {
  const int64_t units = divide_up(whole.count(), alignment);
  const auto bound = [&](int64_t i) { return std::min(whole.end, whole.begin + units * i / parts * alignment); };
  return {bound(part), bound(part + 1)};
}

Plan::Plan(const Call& call, Mode mode, int rank, int ranks, const PlanOptions& options)
    : call_(call), mode_(mode), rank_(rank), ranks_(ranks), options_(options) {
  if (mode_ == Mode::direct) return;
  chunk_ = options_.slot_elements;
  divided_ = call_.count;
  if (call_.collective == Collective::reduce_scatter) {  // a slot holds one piece per rank
    chunk_ = options_.slot_elements / ranks_;
    if (chunk_ > options_.alignment) chunk_ -= chunk_ % options_.alignment;
    divided_ = call_.count / ranks_;
  }
  rounds_ = std::max<int64_t>(1, divide_up(divided_, chunk_));
}

const std::vector<Step>& Plan::round(int64_t round) {
  steps_.clear();
  add(Step::Kind::next_round);
  const bool first = round == 0;
  const Range chunk{round * chunk_, std::min(divided_, (round + 1) * chunk_)};
  if (mode_ == Mode::direct) {
    plan_direct();
  } else {
    switch (call_.collective) {
      case Collective::allreduce:
        if (divided_ <= options_.flat_elements) {
          plan_flat_allreduce(chunk, first);
        } else {
          plan_allreduce(chunk, first);
        }
        break;
      case Collective::reduce: plan_allreduce(chunk, first); break;
      case Collective::reduce_scatter: plan_reduce_scatter(chunk, first); break;
      case Collective::allgather: plan_allgather(chunk, first); break;
      case Collective::broadcast: plan_broadcast(chunk, first); break;
      default: sync(first);
    }
  }
  return steps_;
}

// Every rank shares the whole chunk and reduces all of it.
void Plan::plan_flat_allreduce(Range chunk, bool first) {
  copy(Area::input, rank_, chunk.begin, Area::slot, 0, chunk.count());
  sync(first);
  reduce(Area::slot, 0, chunk.begin, chunk.begin, chunk.count(), Step::Spread::output);
}

// Shares the parts that other ranks reduce, reduces this rank's part, shares the result, and reads theirs. In a reduce, only the root reads.
void Plan::plan_allreduce(Range chunk, bool first) {
  const bool takes = call_.collective == Collective::allreduce || call_.peer == rank_;
  const Range mine = part_of(chunk, rank_, ranks_, options_.alignment);
  copy(Area::input, rank_, chunk.begin, Area::slot, 0, mine.begin - chunk.begin);
  copy(Area::input, rank_, mine.end, Area::slot, mine.end - chunk.begin, chunk.end - mine.end);
  sync(first);
  reduce(Area::slot, mine.begin - chunk.begin, mine.begin, mine.begin, mine.count(), takes ? Step::Spread::output_and_slot : Step::Spread::slot);
  add(Step::Kind::post);
  if (!takes) return;
  add(Step::Kind::wait);
  for (int i = 1; i < ranks_; ++i) {  // each rank starts with a different peer
    const int other = (rank_ + i) % ranks_;
    const Range part = part_of(chunk, other, ranks_, options_.alignment);
    copy(Area::slot, other, part.begin - chunk.begin, Area::output, part.begin, part.count());
  }
}

// The slot holds this rank's pieces for every rank, each at rank * chunk_.
void Plan::plan_reduce_scatter(Range chunk, bool first) {
  for (int other = 0; other < ranks_; ++other) {
    if (other != rank_) copy(Area::input, rank_, other * divided_ + chunk.begin, Area::slot, other * chunk_, chunk.count());
  }
  sync(first);
  reduce(Area::slot, rank_ * chunk_, rank_ * divided_ + chunk.begin, chunk.begin, chunk.count(), Step::Spread::output);
}

void Plan::plan_allgather(Range chunk, bool first) {
  copy(Area::input, rank_, chunk.begin, Area::slot, 0, chunk.count());
  sync(first);
  copy(Area::input, rank_, chunk.begin, Area::output, rank_ * divided_ + chunk.begin, chunk.count());
  for (int i = 1; i < ranks_; ++i) {
    const int other = (rank_ + i) % ranks_;
    copy(Area::slot, other, 0, Area::output, other * divided_ + chunk.begin, chunk.count());
  }
}

// After the first round the root does not wait: it fills one slot while the others read the other one.
void Plan::plan_broadcast(Range chunk, bool first) {
  const bool root = call_.peer == rank_;
  if (root) copy(Area::input, rank_, chunk.begin, Area::slot, 0, chunk.count());
  add(first ? Step::Kind::arrive : Step::Kind::post);
  if (root) return;
  if (!first) add(Step::Kind::wait, call_.peer);
  copy(Area::slot, call_.peer, 0, Area::output, chunk.begin, chunk.count());
}

// All ranks read each other's tensors in place. The last wait ensures that no rank still reads this rank's tensor.
void Plan::plan_direct() {
  add(Step::Kind::arrive);
  const int64_t n = call_.count;
  switch (call_.collective) {
    case Collective::allreduce: {
      const Range mine = part_of({0, n}, rank_, ranks_, options_.alignment);
      reduce(Area::input, mine.begin, mine.begin, mine.begin, mine.count(), Step::Spread::everyone);
      break;
    }
    case Collective::reduce_scatter: {
      const int64_t part = n / ranks_;
      reduce(Area::input, rank_ * part, rank_ * part, 0, part, Step::Spread::output);
      break;
    }
    case Collective::allgather:
      for (int i = 0; i < ranks_; ++i) {
        const int other = (rank_ + i) % ranks_;
        copy(Area::input, other, 0, Area::output, other * n, n);
      }
      break;
    case Collective::broadcast:
      if (call_.peer != rank_) copy(Area::input, call_.peer, 0, Area::output, 0, n);
      break;
    default: return;
  }
  add(Step::Kind::post);
  const bool others_need_nothing_of_mine = call_.collective == Collective::broadcast && call_.peer != rank_;
  if (!others_need_nothing_of_mine) add(Step::Kind::wait);
}

void Plan::add(Step::Kind kind, int rank) {
  Step step;
  step.kind = kind;
  step.rank = rank;
  steps_.push_back(step);
}

void Plan::sync(bool first) {
  if (first) {
    add(Step::Kind::arrive);
  } else {
    add(Step::Kind::post);
    add(Step::Kind::wait);
  }
}

void Plan::copy(Area from, int rank, int64_t from_begin, Area to, int64_t to_begin, int64_t count) {
  if (count == 0) return;
  steps_.push_back({.kind = Step::Kind::copy, .rank = rank, .from = from, .to = to, .from_begin = from_begin, .to_begin = to_begin, .count = count});
}

void Plan::reduce(Area from, int64_t from_begin, int64_t own_begin, int64_t to_begin, int64_t count, Step::Spread spread) {
  if (count == 0) return;
  steps_.push_back({.kind = Step::Kind::reduce,
                    .from = from,
                    .from_begin = from_begin,
                    .to_begin = to_begin,
                    .own_begin = own_begin,
                    .count = count,
                    .spread = spread});
}

}  // namespace tw::shared_memory
