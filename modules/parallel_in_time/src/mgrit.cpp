// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_in_time/mgrit.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>

#include <initializer_list>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/parallel_in_time/states.hpp>

#include "plan_lines.hpp"
#include "residuals.hpp"
#include "sweeper.hpp"

namespace tw::layer_parallel {
namespace {

/// This rank's state on one level.
struct LevelState {
  Stored u;  ///< level 0: C-points; coarser: all points
  Stored f;  ///< coarser levels: right-hand sides; empty until first used. A single iteration with skip_downcycle does not use them
  bool has_f = false;
  LevelPlan::Points c;  ///< C-points of this rank
};

/// A solution in progress.
class Fas {
 public:
  Fas(const Communicator& comm, const LevelPlan& plan, const MgritOptions& options, const PhaseObserver& observer, Propagator& propagator,
      const State& origin, Report& report)
      : comm_(comm), plan_(plan), options_(options), observer_(observer), report_(report), sweeper_(comm, plan, propagator, origin, report) {
    for (int l = 0; l < plan.levels(); ++l) levels_.push_back(make_level(l, origin));
    report_.seconds.assign(levels_.size(), std::vector<Seconds>(phase_kinds, Seconds(0)));
  }

  void set_guess(const State& guess) {
    const LevelState& fine = levels_.front();
    if (fine.c.count == 0 || guess.empty()) return;
    const int64_t n = guess.front().size(0);
    TW_EXPECTS(n == fine.c.count, "the guess has ", n, " states for the ", fine.c.count, " C-points of rank ", comm_.rank());
    TW_EXPECTS(alike(guess, fine.u.states, 1), "the guess is ", describe(guess), ", but the states at its ", n, " points are ",
               describe(fine.u.states));
    const bool has_origin = fine.c.first == 0;  // the origin is known exactly, so its guess is ignored
    copy(fine.u.at(fine.c.first + (has_origin ? fine.c.spacing : 0), fine.c.count - has_origin, fine.c.spacing),
         rows(guess, has_origin, n - has_origin));
  }

  void run(const Phase& phase) {
    const auto begin = std::chrono::steady_clock::now();
    switch (phase.kind) {
      case Phase::Kind::relax: relax(phase.level, options_.weights.at(phase.level)); break;
      case Phase::Kind::restrict: restrict(phase.level); break;
      case Phase::Kind::inject: inject(phase.level); break;
      case Phase::Kind::solve: solve(phase.level); break;
      case Phase::Kind::fill: sweep_into(phase.level, SweepKind::fill); break;
      case Phase::Kind::correct: correct(phase.level); break;
    }
    report_.seconds[static_cast<size_t>(phase.level)][static_cast<size_t>(phase.kind)] += observed(name_of(phase.kind), phase.level, begin);
  }

  /// This rank's parts of two sums of squares: the residual at the last restriction from level 0, and the values it belongs to. float64, [2]
  at::Tensor local_squares() const { return at::stack({residual_, residual_of_}); }
  /// This rank's part of the sum of squares of the values at C-points of level 0. Residuals precede the last correction.
  at::Tensor local_squares_of_values() { return sum_of_squares(c_points(0)); }
  double rounding() const { return rounding_of(levels_.front().u.states); }

  /// Runs the last relaxation and collects the solution.
  Solution finish(const FinalRelaxation& how) {
    const auto begin = std::chrono::steady_clock::now();
    const LevelState& fine = levels_.front();
    levels_.resize(1);  // frees memory for the states that the last relaxation keeps
    const int rank = comm_.rank();
    const auto points = plan_.points_of(0, rank);
    const int64_t steps = plan_.level(0).steps;
    Solution solution;
    Stored kept{{}, points.begin, 1};
    const bool keeps_all = how.store_all || plan_.levels() == 1;
    if (keeps_all) {
      kept.states = zeros_like_rows(fine.u.states, points.size());
      if (fine.c.count > 0) copy(kept.at(fine.c.first, fine.c.count, fine.c.spacing), fine.u.at(fine.c.first, fine.c.count, fine.c.spacing));
    }
    // C-points change only at the end of the sweep: see relax().
    const double weight = how.last_c_relaxation && how.weighted && plan_.levels() > 1 ? options_.weights.at(0) : 1;
    const bool everything = how.last_c_relaxation || plan_.levels() == 1;
    sweeper_.run({.kind = everything ? SweepKind::all : SweepKind::fill,
                  .level = 0,
                  .starts = &fine.u,
                  .right_sides = nullptr,
                  .wants_all = keeps_all,
                  .last = true,
                  .take = [&](int64_t point, int64_t count, int64_t step, const State& made) {
                    const bool is_c_point = is_stored(0, point);
                    const State values = weight != 1 && is_c_point ? weighted(made, fine.u.at(point, count, step), weight) : made;
                    if (keeps_all) copy(kept.at(point, count, step), values);
                    if (is_c_point) copy(fine.u.at(point, count, step), values);
                    if (point + (count - 1) * step == steps) solution.end = row(values, count - 1);
                  }});
    sweeper_.finish();
    if (solution.end.empty() && fine.c.count > 0 && fine.c.first + (fine.c.count - 1) * fine.c.spacing == steps) {
      solution.end = row(fine.u.at(steps), 0);
    }
    solution.points = keeps_all ? kept.states : fine.u.states;
    solution.first = keeps_all ? points.begin : fine.c.first;
    solution.spacing = keeps_all ? 1 : fine.c.spacing;
    report_.last_relaxation = observed("last relaxation", 0, begin);
    return solution;
  }

 private:
  /// Time from `begin` until now; also reported to the observer.
  Seconds observed(const char* name, int level, std::chrono::steady_clock::time_point begin) const {
    const auto end = std::chrono::steady_clock::now();
    if (observer_) observer_(name, level, begin, end);
    return end - begin;
  }

  static State weighted(const State& now, const State& before, double weight) {
    State result;
    for (size_t i = 0; i < now.size(); ++i) result.push_back(before[i] * (1 - weight) + now[i] * weight);
    return result;
  }

  bool is_stored(int level, int64_t point) const { return level > 0 || plan_.level(0).is_c_point(point); }

  LevelState make_level(int l, const State& origin) const {
    const State example = each(origin, [](const at::Tensor& t) { return t.unsqueeze(0); });
    const auto points = plan_.points_of(l, comm_.rank());
    LevelState state;
    state.c = plan_.c_points_of(l, comm_.rank());
    if (l == 0) {
      state.u = {zeros_like_rows(example, state.c.count), state.c.first, state.c.spacing};
      if (state.c.count > 0 && state.c.first == 0) copy(state.u.at(0), example);
    } else {
      state.u = {zeros_like_rows(example, points.size()), points.begin, 1};
      state.f = {{}, points.begin, 1};
    }
    return state;
  }

  LevelState& at(int level) { return levels_[static_cast<size_t>(level)]; }
  const Stored* right_sides(int level) { return at(level).has_f ? &at(level).f : nullptr; }

  void sweep_intervals(int level, const std::function<void(const State& of_points, const State& values)>& take) {
    sweeper_.run({.kind = SweepKind::intervals,
                  .level = level,
                  .starts = &at(level).u,
                  .right_sides = right_sides(level),
                  .take = [&](int64_t point, int64_t count, int64_t step, const State& values) {
                    if (plan_.level(level).is_c_point(point)) take(at(level).u.at(point, count, step), values);
                  }});
  }

  // Sweeps go from right to left and read messages before values change. Each interval therefore starts from the old value of its C-point.
  void relax(int level, double weight) {
    sweep_intervals(level, [&](const State& u, const State& values) {
      if (weight == 1) return copy(u, values);
      for (size_t i = 0; i < u.size(); ++i) u[i].mul_(1 - weight).add_(values[i], weight);
    });
  }

  /// C-points of `level` are the points of the next level.
  State c_points(int level) {
    const LevelState& state = at(level);
    return state.c.count == 0 ? rows(state.u.states, 0, 0) : state.u.at(state.c.first, state.c.count, state.c.spacing);
  }

  void inject(int level) {
    LevelState& coarse = at(level + 1);
    copy(coarse.u.states, c_points(level));
    coarse.has_f = false;
  }

  void restrict(int level) {
    LevelState& coarse = at(level + 1);
    inject(level);
    // r, stored in f; point 0 has none
    if (coarse.f.states.empty()) coarse.f.states = each(coarse.u.states, [](const at::Tensor& u) { return at::empty_like(u); });
    for (const at::Tensor& f : coarse.f.states) f.zero_();
    const int64_t c = plan_.level(level).coarsening;
    sweeper_.run({.kind = SweepKind::intervals,
                  .level = level,
                  .starts = &at(level).u,
                  .right_sides = right_sides(level),
                  .take = [&](int64_t point, int64_t count, int64_t step, const State& values) {
                    if (!plan_.level(level).is_c_point(point)) return;
                    const State f = coarse.f.at(point / c, count, step / c);
                    copy(f, values);
                    add(f, coarse.u.at(point / c, count, step / c), -1);
                  }});
    if (level == 0 && options_.residuals) {
      residual_ = sum_of_squares(coarse.f.states);
      residual_of_ = sum_of_squares(coarse.u.states);
    }
    add(coarse.f.states, coarse.u.states);
    sweeper_.run(
        {.kind = SweepKind::each,
         .level = level + 1,
         .starts = &coarse.u,
         .right_sides = nullptr,
         .take = [&](int64_t point, int64_t count, int64_t step, const State& values) { add(coarse.f.at(point, count, step), values, -1); }});
    coarse.has_f = true;
  }

  void solve(int level) {
    if (level == 0) return;  // the last relaxation solves a single level
    sweep_into(level, SweepKind::all);
  }

  void sweep_into(int level, SweepKind kind) {
    sweeper_.run(
        {.kind = kind,
         .level = level,
         .starts = &at(level).u,
         .right_sides = right_sides(level),
         .wants_all = true,
         .take = [&](int64_t point, int64_t count, int64_t step, const State& values) { copy(at(level).u.at(point, count, step), values); }});
  }

  // C-points still hold v. The difference u - v comes first: it is small, and zero at convergence. Adding two full states would round all of them in
  // each iteration.
  void correct(int level) {
    const State v = c_points(level);
    const State& u = at(level + 1).u.states;
    add(u, v, -1);
    add(v, u);
  }

  const Communicator& comm_;
  const LevelPlan& plan_;
  const MgritOptions& options_;
  const PhaseObserver& observer_;
  Report& report_;
  Sweeper sweeper_;
  std::vector<LevelState> levels_;
  at::Tensor residual_;     // this rank's part of the sum of squares of the residual on level 0
  at::Tensor residual_of_;  // this rank's part of the sum of squares of the values it belongs to
};

LevelPlan serial(const LevelPlan& plan) { return {{{.steps = plan.level(0).steps}}, plan.cuts(), plan.owner()}; }

Solution iterate(const Communicator& comm, const LevelPlan& plan, const MgritOptions& options, const FinalRelaxation& final_relaxation,
                 const PhaseObserver& observer, Propagator& propagator, const State& origin, const State& guess) {
  Report report;
  report.steps.assign(static_cast<size_t>(plan.levels()), 0);
  report.messages.assign(static_cast<size_t>(plan.levels()), 0);
  Fas fas(comm, plan, options, observer, propagator, origin, report);
  fas.set_guess(guess);
  ResidualWatch watch(comm, {options.tolerance, options.on_divergence, fas.rounding()}, report);
  int iterations = plan.levels() == 1 ? 0 : options.iterations;
  for (int i = 0; i < iterations; ++i) {
    for (const Phase& phase : plan_cycle(plan.levels(), options.cycle, i == 0)) fas.run(phase);
    ++report.iterations;
    const bool computed = options.residuals && !(i == 0 && options.cycle.skip_downcycle);
    if (watch.add(computed ? std::optional(fas.local_squares()) : std::nullopt)) break;
    if (i + 1 == options.iterations && report.diverged && options.on_divergence == OnDivergence::more_iterations) iterations *= 2;
  }
  const auto look_at_the_end = [&] {
    if (plan.levels() > 1 && options.residuals) watch.finish(fas.local_squares_of_values());
  };
  const bool decides = watch.decides();
  if (decides) look_at_the_end();
  Solution solution;
  if (!decides) {
    solution = fas.finish(final_relaxation);
    look_at_the_end();
  }
  report.converged = plan.levels() == 1 || (watch.finite() && watch.below());
  report.diverged = !report.converged && (report.diverged || !watch.finite());
  if (report.diverged && options.on_divergence == OnDivergence::serial) {
    solution = iterate(comm, serial(plan), options, final_relaxation, observer, propagator, origin, {});
    add_costs(report, solution.report);
    report.serial = true;
    report.converged = is_finite(comm, solution.points);
    solution.report = std::move(report);
    return solution;
  }
  if (decides) solution = fas.finish(final_relaxation);
  solution.report = std::move(report);
  return solution;
}

}  // namespace

void visit(MgritOptions& options, OptionVisitor& visitor) {
  visitor.field("iterations", options.iterations, at_least(0), {.meaning = "largest number of iterations; 0: all steps one after the other"});
  visitor.field("tolerance", options.tolerance, {.least = 0}, {.meaning = "residual below which the iterations stop; 0: all iterations"});
  visitor.group("cycle", options.cycle);
  visit_field(visitor, "weights", options.weights, {.least = 0, .most = 2, .excludes_least = true},
              {.meaning = "weight w of C-relaxations, by level"});
  visit_residuals(options.residuals, options.on_divergence, visitor);
}

void visit(FinalRelaxation& final_relaxation, OptionVisitor& visitor) {
  visitor.field("last_c_relaxation", final_relaxation.last_c_relaxation, {.meaning = "relax the C-points once more"});
  visitor.field("weighted", final_relaxation.weighted, {.meaning = "weight the last relaxation of the C-points as on level 0"});
  visitor.field("store_all", final_relaxation.store_all, {.meaning = "keep all points", .may_differ = true});
}

void MgritOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(tolerance == 0 || residuals, "tolerance needs residuals = true");
  TW_EXPECTS(!weights.values().empty(), "weights must have at least one value");
  cycle.validate();
}

namespace {

/// Lines that must be equal on all ranks.
std::vector<std::string> lines_of(const LevelPlan& plan, const MgritOptions& options, const FinalRelaxation& final_relaxation) {
  std::vector<std::string> lines = layer_parallel::lines_of(plan);
  for (auto& options_lines : {value_lines(options), value_lines(final_relaxation)})
    lines.insert(lines.end(), options_lines.begin(), options_lines.end());
  return lines;
}

}  // namespace

Mgrit::Mgrit(const Communicator& comm, LevelPlan plan, MgritOptions options, FinalRelaxation final_relaxation)
    : comm_(comm), plan_(std::move(plan)), options_(options), final_relaxation_(final_relaxation) {
  expect_same_on_all_ranks(comm_, "the plan and the options of a solver", lines_of(plan_, options_, final_relaxation_));
  options_.validate();
  TW_EXPECTS(plan_.ranks() == comm.size(), "the plan is for ", plan_.ranks(), " ranks, but there are ", comm.size(), " in communicator ",
             comm.name());
}

void Mgrit::set_iterations(int iterations) {
  TW_EXPECTS(iterations >= 0, "iterations must be at least 0, got ", iterations);
  options_.iterations = iterations;
}

Solution Mgrit::solve(Propagator& propagator, const State& origin, const State& guess) {
  return revoke_on_exception(comm_, [&] {
    if (options_.iterations == 0) return iterate(comm_, serial(plan_), options_, final_relaxation_, observer_, propagator, origin, {});
    return iterate(comm_, plan_, options_, final_relaxation_, observer_, propagator, origin, guess);
  });
}

}  // namespace tw::layer_parallel
