// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/mgrit.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>

#include "releasing_others.hpp"
#include "states.hpp"
#include "sweeper.hpp"

namespace tw::layer_parallel {
namespace {

/// What a rank keeps of a level.
struct LevelState {
  Stored u;  ///< level 0: C-points; coarser: all points
  Stored v;  ///< coarser: what came from the level above
  Stored f;  ///< coarser: right-hand sides
  bool has_f = false;
  int64_t c_begin = 0;  ///< the first C-point homed here
  int64_t c_count = 0;
};

/// The distance from 1 to the next number; 0 of integers.
double epsilon_of(c10::ScalarType dtype) {
  switch (c10::toRealValueType(dtype)) {
    case at::kDouble: return std::numeric_limits<double>::epsilon();
    case at::kFloat: return std::numeric_limits<float>::epsilon();
    case at::kHalf: return std::numeric_limits<c10::Half>::epsilon();
    case at::kBFloat16: return std::numeric_limits<c10::BFloat16>::epsilon();
    default: return 0;
  }
}

/// One solution under way.
class Fas {
 public:
  Fas(const Communicator& comm, const LevelPlan& plan, const MgritOptions& options, Propagator& propagator, const State& origin, Report& report)
      : comm_(comm), plan_(plan), options_(options), propagator_(propagator), report_(report), sweeper_(comm, plan, propagator, origin, report) {
    for (int l = 0; l < plan.levels(); ++l) levels_.push_back(make_level(l, origin));
    report_.seconds.assign(levels_.size(), std::vector<Seconds>(phase_kinds, Seconds(0)));
  }

  void set_guess(const State& guess) {
    LevelState& fine = levels_.front();
    if (fine.c_count == 0 || guess.empty()) return;
    const int64_t n = guess.front().size(0);
    TW_EXPECTS(n == fine.c_count, "the guess has ", n, " states for ", fine.c_count, " C-points of rank ", comm_.rank());
    TW_EXPECTS(alike(guess, fine.u.states, 1), "the guess is ", describe(guess), ", states of ", n, " points are ", describe(fine.u.states));
    const bool has_origin = fine.c_begin == 0;  // which is known better
    copy(fine.u.at(fine.c_begin + (has_origin ? spacing() : 0), fine.c_count - has_origin, spacing()), rows(guess, has_origin, n - has_origin));
  }

  void run(const Phase& phase) {
    const Stopwatch watch;
    switch (phase.kind) {
      case Phase::Kind::relax: relax(phase.level, options_.weights.at(phase.level)); break;
      case Phase::Kind::restrict: restrict(phase.level); break;
      case Phase::Kind::inject: inject(phase.level); break;
      case Phase::Kind::solve: sweep_into(phase.level, SweepKind::all); break;
      case Phase::Kind::fill: sweep_into(phase.level, SweepKind::fill); break;
      case Phase::Kind::correct: correct(phase.level); break;
    }
    report_.seconds[static_cast<size_t>(phase.level)][static_cast<size_t>(phase.kind)] += watch.elapsed();
  }

  /// Of all ranks: the residual that the last restriction from level 0 computed. Collective.
  double residual_norm() const { return norm_of(residual_); }

  /// Of all ranks: what of a residual may be rounding, by the values that it belongs to. Collective.
  double rounding_norm() const {
    double epsilon = 0;
    for (const at::Tensor& tensor : levels_.front().u.states) epsilon = std::max(epsilon, epsilon_of(tensor.scalar_type()));
    constexpr double roundings_in_a_step = 100;
    return roundings_in_a_step * epsilon * norm_of(levels_.at(1).v.states);
  }

  /// Whether the values at C-points of level 0, of all ranks, are. Residuals are those before the last correction. Collective.
  bool is_finite() { return std::isfinite(norm_of(c_points(0))); }

  /// The last relaxation, and what is kept.
  Solution finish() {
    const Stopwatch watch;
    const LevelState& fine = levels_.front();
    const int rank = comm_.rank();
    const auto points = plan_.points_of(0, rank);
    const int64_t steps = plan_.level(0).steps;
    Solution solution;
    Stored kept{{}, points.begin, 1};
    const bool keeps_all = options_.store_all || plan_.levels() == 1;
    if (keeps_all) {
      kept.states = zeros_like_rows(fine.u.states, points.size());
      if (fine.c_count > 0) copy(kept.at(fine.c_begin, fine.c_count, spacing()), fine.u.at(fine.c_begin, fine.c_count, spacing()));
    }
    // C-points change at the end of the sweep only: see relax().
    const bool everything = options_.last_c_relaxation || plan_.levels() == 1;
    sweeper_.run({.kind = everything ? SweepKind::all : SweepKind::fill,
                  .level = 0,
                  .starts = &fine.u,
                  .right_sides = nullptr,
                  .wants_all = keeps_all,
                  .last = true,
                  .take = [&](int64_t point, int64_t count, int64_t step, const State& values) {
                    if (keeps_all) copy(kept.at(point, count, step), values);
                    if (is_stored(0, point)) copy(fine.u.at(point, count, step), values);
                    if (point + (count - 1) * step == steps) solution.end = row(values, count - 1);
                  }});
    sweeper_.finish();
    if (solution.end.empty() && fine.c_count > 0 && fine.c_begin + (fine.c_count - 1) * spacing() == steps) {
      solution.end = row(fine.u.at(steps), 0);
    }
    solution.points = keeps_all ? kept.states : fine.u.states;
    solution.first = keeps_all ? points.begin : fine.c_begin;
    solution.spacing = keeps_all ? 1 : spacing();
    report_.last_relaxation = watch.elapsed();
    return solution;
  }

 private:
  /// Between C-points of level 0; on a single level point 0 is the only one.
  int64_t spacing() const { return plan_.levels() == 1 ? plan_.level(0).steps + 1 : plan_.level(0).coarsening; }
  bool is_stored(int level, int64_t point) const { return level > 0 || plan_.level(0).is_c_point(point); }

  LevelState make_level(int l, const State& origin) const {
    const State example = each(origin, [](const at::Tensor& t) { return t.unsqueeze(0); });
    const auto points = plan_.points_of(l, comm_.rank());
    const Level& level = plan_.level(l);
    const int64_t c = level.coarsest() ? level.steps + 1 : level.coarsening;
    LevelState state;
    state.c_begin = (points.begin + c - 1) / c * c;
    state.c_count = points.size() == 0 || state.c_begin >= points.end ? 0 : (points.end - 1 - state.c_begin) / c + 1;
    if (l == 0) {
      state.u = {zeros_like_rows(example, state.c_count), state.c_begin, c};
      if (state.c_count > 0 && state.c_begin == 0) copy(state.u.at(0), example);
    } else {
      state.u = {zeros_like_rows(example, points.size()), points.begin, 1};
      state.v = {zeros_like_rows(example, points.size()), points.begin, 1};
      state.f = {zeros_like_rows(example, points.size()), points.begin, 1};
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

  // Sweeps go from right to left, and messages are read before values change, so that each interval starts from its C-point as it was before.
  void relax(int level, double weight) {
    sweep_intervals(level, [&](const State& u, const State& values) {
      if (weight == 1) return copy(u, values);
      for (size_t i = 0; i < u.size(); ++i) u[i].mul_(1 - weight).add_(values[i], weight);
    });
  }

  double norm_of(const State& states) const {
    at::Tensor local = at::zeros({}, at::kDouble);
    if (states.front().size(0) > 0) {
      const at::Tensor norms = propagator_.norms(states).to(at::kDouble);
      // MPI does not say what the greater of a number and NaN is.
      local = options_.norm == TemporalNorm::one   ? norms.sum()
              : options_.norm == TemporalNorm::two ? norms.square().sum()
                                                   : norms.nan_to_num(HUGE_VAL, HUGE_VAL).max();
    }
    allreduce(comm_, local, options_.norm == TemporalNorm::max ? ReduceOp::max : ReduceOp::sum);
    const double value = local.item<double>();
    return options_.norm == TemporalNorm::two ? std::sqrt(value) : value;
  }

  /// C-points of `level` are the points of the next.
  State c_points(int level) {
    const LevelState& state = at(level);
    return state.c_count == 0 ? rows(state.u.states, 0, 0) : state.u.at(state.c_begin, state.c_count, plan_.level(level).coarsening);
  }

  void inject(int level) {
    LevelState& coarse = at(level + 1);
    copy(coarse.v.states, c_points(level));
    copy(coarse.u.states, coarse.v.states);
    coarse.has_f = false;
  }

  void restrict(int level) {
    LevelState& coarse = at(level + 1);
    inject(level);
    // r, at its place in f; point 0 has none
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
                    add(f, coarse.v.at(point / c, count, step / c), -1);
                  }});
    if (level == 0 && options_.residuals) residual_ = clone(coarse.f.states);
    add(coarse.f.states, coarse.v.states);
    sweeper_.run(
        {.kind = SweepKind::each,
         .level = level + 1,
         .starts = &coarse.v,
         .right_sides = nullptr,
         .take = [&](int64_t point, int64_t count, int64_t step, const State& values) { add(coarse.f.at(point, count, step), values, -1); }});
    coarse.has_f = true;
  }

  void sweep_into(int level, SweepKind kind) {
    if (level == 0) return;  // a single level is solved by the last relaxation
    sweeper_.run(
        {.kind = kind,
         .level = level,
         .starts = &at(level).u,
         .right_sides = right_sides(level),
         .wants_all = true,
         .take = [&](int64_t point, int64_t count, int64_t step, const State& values) { copy(at(level).u.at(point, count, step), values); }});
  }

  void correct(int level) {
    const LevelState& coarse = at(level + 1);
    const State u = c_points(level);
    add(u, coarse.u.states);
    add(u, coarse.v.states, -1);
  }

  const Communicator& comm_;
  const LevelPlan& plan_;
  const MgritOptions& options_;
  Propagator& propagator_;
  Report& report_;
  Sweeper sweeper_;
  std::vector<LevelState> levels_;
  State residual_;  // of level 0
};

/// Collective.
bool diverges(const Fas& fas, const std::vector<std::optional<double>>& residuals) {
  if (!residuals.back()) return false;
  if (!std::isfinite(*residuals.back())) return true;
  const bool has_grown = residuals.size() > 1 && residuals[residuals.size() - 2] && *residuals.back() > *residuals[residuals.size() - 2];
  return has_grown && *residuals.back() > fas.rounding_norm();
}

/// What both cost, level by level.
void add_costs(Report& to, const Report& other) {
  for (size_t level = 0; level < other.steps.size(); ++level) {
    to.steps[level] += other.steps[level];
    to.messages[level] += other.messages[level];
  }
  to.bytes += other.bytes;
  to.last_relaxation += other.last_relaxation;
}

Solution iterate(const Communicator& comm, const LevelPlan& plan, const MgritOptions& options, Propagator& propagator, const State& origin,
                 const State& guess) {
  Report report;
  report.steps.assign(static_cast<size_t>(plan.levels()), 0);
  report.messages.assign(static_cast<size_t>(plan.levels()), 0);
  Fas fas(comm, plan, options, propagator, origin, report);
  fas.set_guess(guess);
  int iterations = plan.levels() == 1 ? 0 : options.iterations;
  for (int i = 0; i < iterations; ++i) {
    const bool skips = i == 0 && options.cycle.skip_downcycle;
    for (const Phase& phase : plan_cycle(plan.levels(), options.cycle, i == 0)) fas.run(phase);
    ++report.iterations;
    report.residuals.push_back(skips || !options.residuals ? std::nullopt : std::optional(fas.residual_norm()));
    report.diverged = diverges(fas, report.residuals);
    const std::optional<double> residual = report.residuals.back();
    if (residual && (*residual < options.tolerance || !std::isfinite(*residual))) break;
    if (i + 1 == options.iterations && report.diverged && options.on_divergence == OnDivergence::more_iterations) iterations *= 2;
  }
  const bool finite = plan.levels() == 1 || !options.residuals || fas.is_finite();
  const bool below = !report.residuals.empty() && report.residuals.back() && *report.residuals.back() < options.tolerance;
  report.converged = plan.levels() == 1 || (finite && below);
  report.diverged = !report.converged && (report.diverged || !finite);
  if (report.diverged && options.on_divergence == OnDivergence::serial) {
    const LevelPlan serial({{.steps = plan.level(0).steps}}, plan.cuts(), plan.owner());
    Solution solution = iterate(comm, serial, options, propagator, origin, {});
    add_costs(report, solution.report);
    report.serial = report.converged = true;
    solution.report = std::move(report);
    return solution;
  }
  Solution solution = fas.finish();
  solution.report = std::move(report);
  return solution;
}

}  // namespace

void MgritOptions::validate() const {
  TW_EXPECTS(iterations >= 1, "iterations must be at least 1, is ", iterations);
  TW_EXPECTS(tolerance <= 0 || residuals, "a tolerance needs residuals");
  TW_EXPECTS(!weights.values().empty(), "weights needs a value");
  for (const double w : weights.values()) TW_EXPECTS(w > 0 && w <= 2, "weights lie above 0 and up to 2, got ", w);
  cycle.validate();
}

namespace {

/// What ranks must agree on, an option a line.
std::vector<std::string> lines_of(const LevelPlan& plan, const MgritOptions& options) {
  std::ostringstream out;
  out.precision(std::numeric_limits<double>::max_digits10);
  const auto list = [&](const char* name, const auto& values) {
    out << name << ':';
    for (const auto& value : values) out << ' ' << value;
    out << '\n';
  };
  for (int l = 0; l < plan.levels(); ++l)
    list("steps and coarsening of a level", std::initializer_list{plan.level(l).steps, plan.level(l).coarsening});
  list("blocks of steps", plan.cuts());
  list("owner of a step", std::initializer_list{static_cast<int>(plan.owner())});
  list("relaxations", options.cycle.relaxations.values());
  list("weights", options.weights.values());
  out << "iterations: " << options.iterations << "\ntolerance: " << options.tolerance << "\nskip_downcycle: " << options.cycle.skip_downcycle
      << "\nf_cycle: " << options.cycle.f_cycle << "\nlast_c_relaxation: " << options.last_c_relaxation << "\nresiduals: " << options.residuals
      << "\nnorm: " << static_cast<int>(options.norm) << "\non_divergence: " << static_cast<int>(options.on_divergence);
  return {std::move(out).str()};
}

}  // namespace

Mgrit::Mgrit(const Communicator& comm, LevelPlan plan, MgritOptions options) : comm_(comm), plan_(std::move(plan)), options_(std::move(options)) {
  expect_same_on_all_ranks(comm_, "the plan and the options of a solver", lines_of(plan_, options_));
  options_.validate();
  TW_EXPECTS(plan_.ranks() == comm.size(), "the plan is for ", plan_.ranks(), " ranks, not for the ", comm.size(), " of ", comm.name());
}

Solution Mgrit::solve(Propagator& propagator, const State& origin, const State& guess) {
  return releasing_others(comm_, [&] { return iterate(comm_, plan_, options_, propagator, origin, guess); });
}

}  // namespace tw::layer_parallel
