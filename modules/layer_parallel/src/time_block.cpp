// SPDX-License-Identifier: Apache-2.0
#include "time_block.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <tw/base/numbers.hpp>
#include <tw/parallel_in_time/newton.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <utility>

#include "c_states.hpp"
#include "flipped.hpp"
#include "iterated_network.hpp"

namespace tw::layer_parallel {
namespace {

at::Tensor part(const at::Tensor& stacked, int64_t begin, int64_t count, int64_t spacing) { return rows({stacked}, begin, count, spacing)[0]; }

at::Tensor rows_like(const at::Tensor& example, int64_t steps, int64_t width) {
  return at::empty({steps, example.size(-2), width}, example.options());
}

/// This rank's steps of one level, in the order of time.
struct TimeLevel {
  int64_t first = 0;  ///< number of the first step on its level
  at::Tensor inputs;  ///< input products
  Span span;          ///< span of all steps, in of_rows

  Span span_of(int64_t begin, int64_t count, int64_t spacing) const {
    Span result = span;
    if (span.of_rows.defined()) result.of_rows = part(span.of_rows, begin, count, spacing);
    return result;
  }
};

// Inputs count only at steps in which time passes.
TimeLevel coarse_level(const TimeGrid& grid, const TimePass& pass, int level, bool adjoint) {
  const std::vector<Windows> windows = grid.windows(level, adjoint);
  const std::vector<LevelPlan::Range> blocks = grid.blocks();
  const int rank = grid.comm().rank();
  const auto stride = static_cast<double>(grid.plan().level(level).stride);
  const bool all_pass = !pass.passes.defined();
  TimeLevel result;
  result.first = grid.plan().steps_of(level, rank).begin;
  result.span = {stride, true, pass.coarse, {}};
  const at::Tensor sums = window_sums(grid.comm(), all_pass ? pass.inputs : pass.inputs * pass.passes, blocks, windows);
  if (all_pass) {
    result.inputs = sums.div_(stride);
  } else {
    result.span.of_rows = window_sums(grid.comm(), pass.passes, blocks, windows);
    result.inputs = sums.div_(result.span.of_rows.clamp_min(1));
  }
  return result;
}

TimeLevel finest_level(const TimeGrid& grid, const TimePass& pass) { return {grid.block().begin, pass.inputs, {.of_rows = pass.passes}}; }

class ForwardInTime : public LinearisingPropagator {
 public:
  ForwardInTime(const TimeGrid& grid, TimePass& pass, TimeResult& result, bool record) : pass_(pass), result_(result), record_(record) {
    levels_.push_back(finest_level(grid, pass));
    for (int level = 1; level < grid.plan().levels(); ++level) levels_.push_back(coarse_level(grid, pass, level, false));
  }

  State march(const March& march, const State& from, const Between& between) override {
    const TimeLevel& level = levels_.at(static_cast<size_t>(march.level));
    const auto& [first, count, spacing, length] = march.runs;
    State states = from;
    for (int64_t j = 0; j < length; ++j) {
      const int64_t row = first + j - level.first;
      CellStep made = step(pass_.weights, states, part(level.inputs, row, count, spacing), level.span_of(row, count, spacing));
      if (march.last && march.level == 0) keep(made, row, count, spacing);
      states = std::move(made.to);
      if (between && j + 1 < length) states = between(j, states);
    }
    return states;
  }

  Linearisation linearise(const March& march, const State& from, JacobianKind kind) override {
    const TimeLevel& level = levels_.front();
    const auto& [first, count, spacing, length] = march.runs;
    const Span span = level.span_of(first - level.first, count, spacing);
    const CellStep made = step(pass_.weights, from, part(level.inputs, first - level.first, count, spacing), span);
    return {made.to, jacobian(pass_.weights, made.kept, span, kind)};
  }

 private:
  void keep(const CellStep& made, int64_t row, int64_t count, int64_t spacing) {
    part(result_.outputs, row, count, spacing).copy_(made.to[0]);
    if (!record_) return;
    if (pass_.kept.empty()) {
      pass_.kept = each(made.kept, [&](const at::Tensor& t) { return rows_like(t, pass_.inputs.size(0), t.size(-1)); });
    }
    copy(rows(pass_.kept, row, count, spacing), made.kept);
  }

  TimePass& pass_;
  TimeResult& result_;
  const bool record_;
  std::vector<TimeLevel> levels_;
};

/// Step k of an adjoint level is the transposed Jacobian of a forward step, after the cotangent of its output is added.
class AdjointInTime : public LinearisingPropagator {
 public:
  AdjointInTime(TimeGrid& grid, const TimePass& pass, const at::Tensor& outputs, TimeGradient& gradient)
      : grid_(grid), pass_(pass), gradient_(gradient) {
    levels_.push_back({finest_level(grid, pass), pass.kept, outputs});
    const int rank = grid.comm().rank();
    for (int l = 1; l < grid.plan().levels(); ++l) {
      Level& level = levels_.emplace_back(Level{coarse_level(grid, pass, l, true), {}, {}});
      const Windows mine = grid.windows(l, true)[static_cast<size_t>(rank)];
      if (mine.count > 0) {
        const State states = pass.c_states.at(mine.first, mine.count, mine.length);
        level.kept = step(pass.weights, states, level.forward.inputs, level.forward.span).kept;
      }
      if (outputs.defined()) level.outputs = window_sums(grid.comm(), outputs, grid.blocks(), grid.windows(l, true));
    }
  }

  State march(const March& march, const State& from, const Between& between) override {
    const Level& level = levels_.at(static_cast<size_t>(march.level));
    const auto& [first, count, spacing, length] = march.runs;
    const int64_t row_of_last = row_of_last_run(march);
    State states = flipped(from);
    for (int64_t j = 0; j < length; ++j) {
      const int64_t row = row_of_last - j;
      if (level.outputs.defined()) states[0] = states[0] + part(level.outputs, row, count, spacing);
      const Span span = level.forward.span_of(row, count, spacing);
      CellGradient made = transposed(pass_.weights, rows(level.kept, row, count, spacing), states, span);
      if (march.last && march.level == 0) {
        part(gradient_.of_inputs, row, count, spacing).copy_(made.of_input);
        if (!gradient_.of_products.is_same(gradient_.of_inputs)) part(gradient_.of_products, row, count, spacing).copy_(made.of_product);
      }
      states = std::move(made.of_state);
      if (between && j + 1 < length) states = flipped(between(j, flipped(states)));
    }
    return flipped(states);
  }

  Linearisation linearise(const March& march, const State& from, JacobianKind kind) override {
    const Level& level = levels_.front();
    const auto& [first, count, spacing, length] = march.runs;
    const int64_t row = row_of_last_run(march);
    Span span = level.forward.span_of(row, count, spacing);
    if (span.of_rows.defined()) span.of_rows = flipped({span.of_rows})[0];
    const at::Tensor forward = jacobian(pass_.weights, flipped(rows(level.kept, row, count, spacing)), span, kind);
    return {this->march(march, from, {}), transposed(forward, kind)};
  }

 private:
  // Rows are in the order of time.
  int64_t row_of_last_run(const March& march) const {
    const int64_t end = grid_.reversed_plan().steps_of(march.level, grid_.comm().size() - 1 - grid_.comm().rank()).end;
    return end - 1 - march.runs.begin(march.runs.count - 1);
  }

  struct Level {
    TimeLevel forward;
    State kept;
    at::Tensor outputs;  // cotangents; on coarse levels, sums over the steps
  };

  TimeGrid& grid_;
  const TimePass& pass_;
  TimeGradient& gradient_;
  std::vector<Level> levels_;
};

// Rounds up to a whole interval if there are several levels.
int64_t filled_up(int64_t steps, const LevelOptions& levels) {
  const auto planned = plan_levels(steps, levels);
  if (planned.size() == 1) return steps;
  const int64_t c = planned.front().coarsening;
  return divide_up(steps, c) * c;
}

// Padding belongs to the last rank with steps, and to the ranks after it, which have none.
LevelPlan filled_plan(std::vector<int64_t> cuts, const LevelOptions& levels) {
  const int64_t steps = cuts.back();
  const int64_t filled = filled_up(steps, levels);
  for (size_t cut = 1; cut < cuts.size(); ++cut) cuts[cut] = cuts[cut] == steps ? filled : cuts[cut];
  return {plan_levels(filled, levels), std::move(cuts), StepOwner::left};
}

std::unique_ptr<ParallelInTime> solver_of(const Communicator& comm, const LevelPlan& plan, const MgritOptions& options,
                                          std::optional<JacobianKind> newton) {
  if (!newton) return std::make_unique<Mgrit>(comm, plan, options, FinalRelaxation{.last_c_relaxation = true, .weighted = false});
  const NewtonOptions of_newton{.iterations = options.iterations,
                                .tolerance = options.tolerance,
                                .jacobian = *newton,
                                .residuals = options.residuals,
                                .on_divergence = options.on_divergence};
  return std::make_unique<Newton>(comm, plan, of_newton);
}

}  // namespace

TimeGrid::TimeGrid(const Communicator& comm, const Communicator& reversed, std::vector<int64_t> cuts, const LevelOptions& levels,
                   const MgritOptions& forward, const MgritOptions& backward, std::optional<JacobianKind> newton, const PhaseObserver& observer)
    : comm_(comm),
      steps_(cuts.back()),
      plan_(filled_plan(std::move(cuts), levels)),
      reversed_plan_(mirrored(plan_)),
      forward_options_(forward),
      backward_options_(backward),
      modelled_speed_up_(newton ? std::optional(0.0) : std::nullopt),
      forward_(solver_of(comm, plan_, forward, newton)),
      backward_(solver_of(reversed, reversed_plan_, backward, newton)) {
  for (ParallelInTime* solver : {forward_.get(), backward_.get()}) solver->observe(observer);
}

void TimeGrid::set_iterations(Iterations iterations) {
  forward_->set_iterations(forward_options_.iterations = iterations.forward);
  backward_->set_iterations(backward_options_.iterations = iterations.backward);
  if (modelled_speed_up_ != 0.0) modelled_speed_up_.reset();
}

double TimeGrid::modelled_speed_up() {
  if (!modelled_speed_up_) modelled_speed_up_ = layer_parallel::modelled_speed_up(plan_, forward_options_, backward_options_, 0);
  return *modelled_speed_up_;
}

std::vector<int64_t> TimeGrid::cuts_of(int64_t steps, int ranks, const LevelOptions& levels) {
  std::vector<int64_t> cuts = level_plan(filled_up(steps, levels), ranks, levels, StepOwner::left).cuts();
  for (int64_t& cut : cuts) cut = std::min(cut, steps);
  return cuts;
}

std::vector<LevelPlan::Range> TimeGrid::blocks() const {
  std::vector<LevelPlan::Range> blocks;
  for (int rank = 0; rank < plan_.ranks(); ++rank) blocks.push_back(plan_.steps_of(0, rank));
  return blocks;
}

std::vector<Windows> TimeGrid::windows(int level, bool adjoint) const {
  const int64_t stride = plan_.level(level).stride;
  std::vector<Windows> windows;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const auto range = adjoint ? reversed_plan_.steps_of(level, plan_.ranks() - 1 - rank) : plan_.steps_of(level, rank);
    windows.push_back({adjoint ? plan_.level(0).steps - range.end * stride : range.begin * stride, stride, range.size()});
  }
  return windows;
}

TimeResult run_forward(TimeGrid& grid, TimePass& pass, const State& origin, bool record) {
  TimeResult result;
  result.outputs = rows_like(origin[0], pass.inputs.size(0), origin[0].size(-1));
  pass.like = origin;
  ForwardInTime steps(grid, pass, result, record);
  const Solution solution = grid.forward().solve(steps, origin);
  if (record && grid.plan().levels() > 1) pass.c_states = exchange_c_states(grid.comm(), grid.plan(), solution, origin);
  result.end = solution.end;
  result.report = solution.report;
  return result;
}

TimeGradient run_backward(TimeGrid& grid, const TimePass& pass, const at::Tensor& outputs, const State& end) {
  TimeGradient gradient;
  gradient.of_inputs = at::zeros_like(pass.inputs);
  gradient.of_products = pass.weights.cell == Cell::gru ? at::zeros_like(pass.inputs) : gradient.of_inputs;
  AdjointInTime steps(grid, pass, outputs, gradient);
  const Solution solution = grid.backward().solve(steps, end);
  gradient.of_origin = solution.end;
  gradient.report = solution.report;
  return gradient;
}

}  // namespace tw::layer_parallel
