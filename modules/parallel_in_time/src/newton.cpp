// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_in_time/newton.hpp>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <tw/base/clock.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/parallel_in_time/states.hpp>
#include <utility>

#include "affine_scan.hpp"
#include "plan_lines.hpp"
#include "residuals.hpp"

namespace tw::layer_parallel {
namespace {

/// A solution in progress.
class NewtonIterations {
 public:
  NewtonIterations(const Communicator& comm, const LevelPlan& plan, const NewtonOptions& options, const PhaseObserver& observer,
                   LinearisingPropagator& propagator, const State& origin, Report& report)
      : comm_(comm),
        plan_(plan),
        options_(options),
        observer_(observer),
        propagator_(propagator),
        report_(report),
        steps_(plan.steps_of(0, comm.rank())),
        before_(each(origin, [](const at::Tensor& t) { return t.unsqueeze(0); })),
        u_(zeros_like_rows(before_, steps_.size())) {
    report_.seconds.assign(1, std::vector<Seconds>(phase_kinds, Seconds(0)));
  }

  /// Collective.
  void begin_with(const State& guess) {
    if (steps_.size() == 0) return;
    if (!guess.empty()) {
      const int64_t n = plan_.points_of(0, comm_.rank()).size();
      TW_EXPECTS(alike(guess, u_, 1), "the guess is ", describe(guess), ", but the states at the points of rank ", comm_.rank(), " are ",
                 describe(u_));
      TW_EXPECTS(guess.front().size(0) == n, "the guess has ", guess.front().size(0), " states for the ", n, " points of rank ", comm_.rank());
      u_ = clone(rows(guess, n - steps_.size(), steps_.size()));
    }
    if (has_next()) send(rows(u_, steps_.size() - 1, 1));
    if (!is_first()) before_ = receive();
  }

  void iterate() {
    if (steps_.size() == 0) return;
    auto begin = std::chrono::steady_clock::now();
    linearise();
    observed("linearise", Phase::Kind::relax, begin);
    begin = std::chrono::steady_clock::now();
    if (options_.residuals) squares_ = at::stack({sum_of_squares(residual_), local_squares_of_values()});
    correct();
    observed("solve the recurrence", Phase::Kind::solve, begin);
  }

  /// This rank's parts of two sums of squares: the residual, and the values it belongs to. float64, [2]
  at::Tensor local_squares() const { return squares_.defined() ? squares_ : at::zeros({2}, u_.front().options().dtype(at::kDouble)); }
  at::Tensor local_squares_of_values() const { return sum_of_squares(u_); }
  double rounding() const { return rounding_of(u_); }

  Solution finish() {
    const auto begin = std::chrono::steady_clock::now();
    Solution solution;
    const auto points = plan_.points_of(0, comm_.rank());
    solution.first = points.begin;
    if (steps_.size() > 0) {
      const State values = propagator_.march(march(true), starts(), {});
      expect_states(values);
      report_.steps[0] += steps_.size();
      solution.points = is_first() ? concatenate({before_, values}) : values;
      if (!has_next()) solution.end = row(values, steps_.size() - 1);
    } else {
      solution.points = rows(before_, 0, 0);
    }
    wait_all(sends_);
    const auto end = std::chrono::steady_clock::now();
    if (observer_) observer_("last relaxation", 0, begin, end);
    report_.last_relaxation = end - begin;
    return solution;
  }

 private:
  bool is_first() const { return steps_.begin == 0; }
  bool has_next() const { return steps_.end < plan_.level(0).steps; }

  March march(bool last) const { return {plan_, 0, {.first = steps_.begin, .count = steps_.size(), .spacing = 1, .length = 1}, last}; }
  /// The states where the steps start.
  State starts() const { return steps_.size() == 1 ? before_ : concatenate({before_, rows(u_, 0, steps_.size() - 1)}); }

  void linearise() {
    Linearisation made = propagator_.linearise(march(false), starts(), options_.jacobian);
    expect_states(made.to);
    report_.steps[0] += steps_.size();
    f_ = std::move(made.to);
    jacobian_ = std::move(made.jacobian);
    residual_ = difference(f_, u_);
  }

  // Let g = h - f be the change that linearisation adds to a new state: g_k = J_k (h_{k-1} - u_{k-1}) = J_k (g_{k-1} + r_{k-1}), where r is the
  // residual. Near the solution all terms are small. Where a state was far off, f replaces it, and no rounding error of the old state remains.
  void correct() {
    const JacobianKind kind = options_.jacobian;
    const int64_t n = steps_.size();
    const at::Tensor r = as_vector(residual_, kind);
    const at::Tensor constants = at::empty(r.sizes(), r.options());
    constants.narrow(0, 0, 1).zero_();
    if (n > 1) constants.narrow(0, 1, n - 1).copy_(applied(jacobian_.narrow(0, 1, n - 1), r.narrow(0, 0, n - 1), kind));
    // The first rank waits for no other rank, so it counts only its own steps.
    AffineScan scan(kind, std::move(jacobian_), constants, is_first() ? n : plan_.level(0).steps);
    const State old = std::exchange(before_, is_first() ? before_ : receive());
    const at::Tensor start = as_vector(row(difference(before_, old), 0), kind);
    if (has_next()) send(stack({sum(row(f_, n - 1), as_state(scan.end(start), before_, kind))}));
    u_ = sum(f_, as_state(scan.all(start), before_, kind));
  }

  void send(const State& state) {
    std::erase_if(sends_, [](Work& work) { return work.test(); });
    for (const at::Tensor& tensor : clone(state)) {
      sends_.push_back(isend(comm_, tensor, Rank(plan_.executor(0, steps_.end))));
      ++report_.messages[0];
      report_.bytes += static_cast<int64_t>(tensor.nbytes());
    }
  }

  State receive() const {
    const Stopwatch watch;
    State state = each(before_, [&](const at::Tensor& t) {
      at::Tensor incoming = at::empty(t.sizes(), t.options());
      recv(comm_, incoming, Rank(plan_.executor(0, steps_.begin - 1)));
      return incoming;
    });
    report_.waited += watch.elapsed();
    return state;
  }

  void expect_states(const State& states) const {
    TW_EXPECTS(alike(states, u_, 0), steps_.size(), " steps from point ", steps_.begin, " returned ", describe(states), ", expected ", describe(u_),
               ": a step must keep the shapes and dtypes of its state");
  }

  void observed(const char* name, Phase::Kind kind, std::chrono::steady_clock::time_point begin) const {
    const auto end = std::chrono::steady_clock::now();
    if (observer_) observer_(name, 0, begin, end);
    report_.seconds[0][static_cast<size_t>(kind)] += end - begin;
  }

  const Communicator& comm_;
  const LevelPlan& plan_;
  const NewtonOptions& options_;
  const PhaseObserver& observer_;
  LinearisingPropagator& propagator_;
  Report& report_;
  const LevelPlan::Range steps_;
  State before_;  // start of the first step, stacked as one row
  State u_;       // the states after the steps
  State f_, residual_;
  at::Tensor jacobian_;
  at::Tensor squares_;
  std::vector<Work> sends_;
};

Solution iterate(const Communicator& comm, const LevelPlan& plan, const NewtonOptions& options, const PhaseObserver& observer, Mgrit& serial,
                 LinearisingPropagator& propagator, const State& origin, const State& guess) {
  Report report;
  report.steps.assign(1, 0);
  report.messages.assign(1, 0);
  NewtonIterations newton(comm, plan, options, observer, propagator, origin, report);
  newton.begin_with(guess);
  ResidualWatch watch(comm, {options.tolerance, options.on_divergence, newton.rounding()}, report);
  int iterations = options.iterations;
  for (int i = 0; i < iterations; ++i) {
    newton.iterate();
    ++report.iterations;
    if (watch.add(options.residuals ? std::optional(newton.local_squares()) : std::nullopt)) break;
    if (i + 1 == options.iterations && report.diverged && options.on_divergence == OnDivergence::more_iterations) iterations *= 2;
  }
  Solution solution;
  if (!watch.decides()) solution = newton.finish();
  if (options.residuals) watch.finish(newton.local_squares_of_values());
  report.converged = watch.finite() && watch.below();
  report.diverged = !report.converged && (report.diverged || !watch.finite());
  if (report.diverged && options.on_divergence == OnDivergence::serial) {
    solution = serial.solve(propagator, origin);
    add_costs(report, solution.report);
    report.serial = true;
    report.converged = is_finite(comm, solution.points);
  } else if (watch.decides()) {
    solution = newton.finish();
  }
  solution.report = std::move(report);
  return solution;
}

}  // namespace

void visit(NewtonOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, JacobianKind>> kinds{{"full", JacobianKind::full}, {"diagonal", JacobianKind::diagonal}};
  visitor.field("iterations", options.iterations, at_least(0), {.meaning = "largest number of iterations; 0: all steps one after the other"});
  visitor.field("tolerance", options.tolerance, {.least = 0}, {.meaning = "residual below which the iterations stop; 0: all iterations"});
  visitor.field("jacobian", options.jacobian, kinds, {.meaning = "part of the Jacobian that an iteration uses"});
  visit_residuals(options.residuals, options.on_divergence, visitor);
}

void NewtonOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(tolerance == 0 || residuals, "tolerance needs residuals = true");
}

Newton::Newton(const Communicator& comm, const LevelPlan& plan, NewtonOptions options)
    : comm_(comm), plan_({{.steps = plan.level(0).steps}}, plan.cuts(), plan.owner()), options_(options) {
  std::vector<std::string> lines = lines_of(plan_);
  for (std::string& line : value_lines(options_)) lines.push_back(std::move(line));
  expect_same_on_all_ranks(comm_, "the plan and the options of a solver", lines);
  options_.validate();
  serial_ = std::make_unique<Mgrit>(comm_, plan_, MgritOptions{});
}

void Newton::set_iterations(int iterations) {
  TW_EXPECTS(iterations >= 0, "iterations must be at least 0, got ", iterations);
  options_.iterations = iterations;
}

void Newton::observe(PhaseObserver observer) {
  serial_->observe(observer);
  observer_ = std::move(observer);
}

Solution Newton::solve(Propagator& propagator, const State& origin, const State& guess) {
  return revoke_on_exception(comm_, [&] {
    auto* const linearising = dynamic_cast<LinearisingPropagator*>(&propagator);
    TW_EXPECTS(linearising != nullptr, "Newton's method needs the Jacobians of steps: pass a LinearisingPropagator");
    if (options_.iterations == 0) return serial_->solve(propagator, origin);
    return iterate(comm_, plan_, options_, observer_, *serial_, *linearising, origin, guess);
  });
}

}  // namespace tw::layer_parallel
