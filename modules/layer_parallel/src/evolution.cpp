// SPDX-License-Identifier: Apache-2.0
#include "evolution.hpp"

#include <algorithm>
#include <optional>
#include <tw/autograd/generator.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "flipped.hpp"
#include "random_layer_seed.hpp"

namespace tw::layer_parallel {
namespace {

/// Seeds the generator for each random layer while it lives.
class Seeding {
 public:
  explicit Seeding(const Evolution& evolution) {
    if (!evolution.random) return;
    generator_.emplace();
    seed = [this, key = random_layer_seed(evolution.seed, evolution.block, evolution.call)](int64_t layer) {
      generator_->seed(key, static_cast<uint64_t>(layer));
    };
  }
  Seeding(const Seeding&) = delete;
  Seeding& operator=(const Seeding&) = delete;

  std::function<void(int64_t layer)> seed;

 private:
  std::optional<GeneratorGuard> generator_;
};

}  // namespace

ForwardPropagator::ForwardPropagator(Evolution evolution, State extras, Tape* tape, std::function<void()> on_last)
    : evolution_(evolution), extras_(std::move(extras)), tape_(tape), on_last_(std::move(on_last)) {}

State ForwardPropagator::march(const March& march, const State& from, const Between& between) {
  if (march.last && on_last_) std::exchange(on_last_, {})();
  return this->march(march.runs, march.plan.level(march.level).stride, march.last && tape_ != nullptr, from, between);
}

State ForwardPropagator::march(const Runs& runs, int64_t stride, bool record, const State& from, const Between& between) {
  Stepper& stepper = evolution_.stack.stepper(from, extras_, evolution_.h * static_cast<double>(stride));
  if (!stepper.runs_together() && runs.count > 1 && !between) {
    std::vector<State> ends;
    for (int64_t run = 0; run < runs.count; ++run) {
      ends.push_back(march({runs.begin(run), 1, runs.spacing, runs.length}, stride, record, rows(from, run, 1), between));
    }
    return concatenate(ends);
  }
  const Seeding seeding(evolution_);
  const StepContext with{extras_, seeding.seed};
  State states = record ? clone(from) : from;  // what is linearised here must not change afterwards
  Record* const tape = record ? &tape_->records.emplace_back(Record{runs, states, {}}) : nullptr;
  for (int64_t j = 0; j < runs.length; ++j) {
    const Rows layers = evolution_.layers({(runs.first + j) * stride, runs.count, runs.spacing * stride});
    if (record && !tape_->recompute) {
      auto [to, linearised] = stepper.linearise(layers, states, with);
      states = std::move(to);
      tape->steps.push_back(std::move(linearised));
    } else {
      states = stepper.run(layers, states, with);
    }
    if (between && j + 1 < runs.length) states = between(j, states);
  }
  return states;
}

AdjointPropagator::AdjointPropagator(Evolution evolution, Tape& tape, std::vector<at::Tensor> gradients)
    : evolution_(evolution), tape_(tape), gradients_(std::move(gradients)) {
  for (size_t r = 0; r < tape_.records.size(); ++r) {
    const Runs& runs = tape_.records[r].runs;
    for (int64_t run = 0; run < runs.count; ++run) {
      for (int64_t j = 0; j < runs.length; ++j) places_[runs.begin(run) + j] = {r, run, j};
    }
  }
}

State AdjointPropagator::march(const March& march, const State& from, const Between& between) {
  if (march.last) coarse_.clear();  // no coarse steps follow
  return march.level == 0 ? march_finest(march, from) : march_coarse(march, from, between);
}

// A run of the adjoint is a forward run in reverse. It may lie in one record or several, be a part of a run, or span several runs in a row.
State AdjointPropagator::march_finest(const March& march, const State& from) {
  const Runs& runs = march.runs;
  const auto last_step = [&](int64_t run) { return march.plan.level(0).steps - runs.begin(run) - 1; };
  std::vector<State> results;
  for (int64_t begin = 0; begin < runs.count;) {
    const Place place = places_.at(last_step(begin));
    int64_t end = begin + 1;
    const auto is_next = [&](int64_t run) {
      if (tape_.recompute) return false;  // grouping them would keep all steps of this rank at the same time
      const Place& other = places_.at(last_step(run));
      return other.record == place.record && other.position == place.position && other.run == place.run - (run - begin);
    };
    while (end < runs.count && is_next(end)) ++end;
    State state = flipped(rows(from, begin, end - begin));
    for (int64_t made = 0; made < runs.length;) {
      const Place& here = places_.at(last_step(begin) - made);
      const int64_t length = std::min(here.position + 1, runs.length - made);
      TW_ASSERT(made + length == runs.length || end == begin + 1);
      const Part part{here.run - (end - begin) + 1, end - begin, here.position + 1 - length, here.position + 1};
      state = through(tape_.records[here.record], part, state, march.last);
      made += length;
    }
    results.push_back(flipped(state));
    begin = end;
  }
  return concatenate(results);
}

State AdjointPropagator::through(Record& record, const Part& part, const State& cotangents, bool last) {
  const Runs& runs = record.runs;
  const bool kept = !record.steps.empty();
  std::vector<std::unique_ptr<Linearised>> again;
  if (!kept) again = linearised_again(record, part);
  auto& steps = kept ? record.steps : again;
  const bool frees = !kept || (last && !tape_.retain && part.runs == runs.count);
  const int64_t first_row = kept ? part.run : 0;
  State state = cotangents;
  for (int64_t j = part.end - 1; j >= part.begin; --j) {
    const Rows layers = evolution_.layers({runs.begin(part.run) + j, part.runs, runs.spacing});
    state = steps[static_cast<size_t>(j)]->transposed({first_row, part.runs, 1}, state, last ? gradients_of(layers) : std::vector<at::Tensor>());
    if (frees) steps[static_cast<size_t>(j)].reset();
  }
  return state;
}

std::vector<std::unique_ptr<Linearised>> AdjointPropagator::linearised_again(const Record& record, const Part& part) const {
  const Runs& runs = record.runs;
  const AutocastScope autocast(tape_.autocast);
  if (tape_.buffers) tape_.buffers->restore();
  State states = rows(record.from, part.run, part.runs);
  Stepper& stepper = evolution_.stack.stepper(states, tape_.extras, evolution_.h);
  const Seeding seeding(evolution_);
  std::vector<std::unique_ptr<Linearised>> steps;
  for (int64_t j = 0; j < part.end; ++j) {
    const Rows layers = evolution_.layers({runs.begin(part.run) + j, part.runs, runs.spacing});
    auto [to, linearised] = stepper.linearise(layers, states, {tape_.extras, seeding.seed});
    states = std::move(to);
    steps.push_back(std::move(linearised));
  }
  return steps;
}

std::vector<at::Tensor> AdjointPropagator::gradients_of(const Rows& layers) const {
  std::vector<at::Tensor> result;
  for (const at::Tensor& g : gradients_) {
    result.push_back(g.defined() ? rows({g}, layers.begin - evolution_.stack.range().begin, layers.count, layers.spacing)[0] : g);
  }
  return result;
}

State AdjointPropagator::march_coarse(const March& march, const State& from, const Between& between) {
  const CoarseSteps& coarse = coarse_steps(march.plan, march.level);
  const int64_t stride = march.plan.level(march.level).stride;
  const Runs& runs = march.runs;
  State states = from;
  for (int64_t j = 0; j < runs.length; ++j) {
    const int64_t end_of_last = (runs.begin(runs.count - 1) + j + 1) * stride;  // in reversed order
    const int64_t first = march.plan.level(0).steps - end_of_last;
    states = flipped(coarse.steps->transposed({(first - coarse.first) / stride, runs.count, runs.spacing}, flipped(states), {}));
    if (between && j + 1 < runs.length) states = between(j, states);
  }
  return states;
}

// On the reversed level, steps end at the last point of level 0, wherever the forward level's steps end.
const AdjointPropagator::CoarseSteps& AdjointPropagator::coarse_steps(const LevelPlan& plan, int level) {
  const auto [found, is_new] = coarse_.try_emplace(level);
  CoarseSteps& coarse = found->second;
  if (!is_new) return coarse;
  const int64_t stride = plan.level(level).stride;
  const int64_t steps = plan.level(0).steps;
  const Stored& states = tape_.c_states;
  const auto range = evolution_.stack.range();
  const int64_t from = std::max(range.begin - evolution_.begin, states.first);
  const int64_t to = std::min({range.end - evolution_.begin, steps - stride + 1, states.first + states.states.front().size(0) * states.spacing});
  const int64_t offset = steps % stride;
  coarse.first = offset + std::max<int64_t>(divide_up(from - offset, stride), 0) * stride;
  const int64_t count = (to - 1 - coarse.first) / stride + 1;
  if (tape_.buffers) tape_.buffers->restore();
  const AutocastScope autocast(tape_.autocast);
  Stepper& stepper = evolution_.stack.stepper(states.states, tape_.extras, evolution_.h * static_cast<double>(stride));
  const Seeding seeding(evolution_);
  coarse.steps =
      stepper.linearise(evolution_.layers({coarse.first, count, stride}), states.at(coarse.first, count, stride), {tape_.extras, seeding.seed})
          .second;
  return coarse;
}

}  // namespace tw::layer_parallel
