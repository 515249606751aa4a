// SPDX-License-Identifier: Apache-2.0
#include <tw/parallel_in_time/ode.hpp>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/mpi/revoke_on_exception.hpp>
#include <tw/parallel_in_time/states.hpp>

namespace tw::layer_parallel::mgrit {

/// Options except those of the solver.
static void visit(Options<State>& options, OptionVisitor& visitor) {
  LevelOptions levels{options.levels, options.coarsening, options.min_coarse};
  visitor.field("final_time", options.final_time, {.least = 0, .excludes_least = true}, {.meaning = "final time T; point k is at T k / N"});
  visit(levels, visitor);
  visitor.presence("guess", static_cast<bool>(options.guess));
  visitor.field("times", options.times, Bounds{}, {.meaning = "times of the points; empty: equal steps to final_time"});
  visitor.field("costs", options.costs, {.least = 0}, {.meaning = "costs of the steps of the finest level, in any unit"});
}

namespace {

/// Lines that must be equal on all ranks; the solver checks its own options.
std::vector<std::string> lines_of(const State& u0, int64_t steps, const Options<State>& options) {
  std::vector<std::string> lines = value_lines(options);
  lines.push_back(concat("u_0 ", describe(u0)));
  lines.push_back(concat("steps ", steps));
  return lines;
}

void validate(const State& u0, int64_t steps, const Options<State>& options) {
  expect_none(out_of_bounds(options));
  TW_EXPECTS(steps >= 1, "at least one step is needed, got ", steps);
  TW_EXPECTS(!u0.empty(), "u_0 must hold at least one tensor");
  for (const at::Tensor& tensor : u0) {
    TW_EXPECTS(tensor.defined() && (tensor.is_floating_point() || tensor.is_complex()), "u_0 is ", describe(u0),
               "; a state's tensors must be floating-point or complex");
  }
  const auto& times = options.times;
  TW_EXPECTS(times.empty() || static_cast<int64_t>(times.size()) == steps + 1, times.size(), " times for the ", steps + 1, " points of ", steps,
             " steps: pass one time for each point");
  TW_EXPECTS(std::ranges::adjacent_find(times, std::greater_equal<>()) == times.end(), "times must ascend strictly");
  options.solver.validate();
}

/// Time of a point on level 0.
double time_of(int64_t point, int64_t steps, const Options<State>& options) {
  if (!options.times.empty()) return options.times[static_cast<size_t>(point)];
  return static_cast<double>(point) * (options.final_time / static_cast<double>(steps));
}

/// Guess at this rank's C-points of level 0, stacked.
State guess_at_c_points(const LevelPlan& plan, int rank, const State& u0, const Options<State>& options) {
  std::vector<State> values;
  const auto [first, count, spacing] = plan.c_points_of(0, rank);
  for (int64_t point = first; point < first + count * spacing; point += spacing) {
    values.push_back(options.guess ? detached(options.guess(time_of(point, plan.level(0).steps, options))) : u0);
    TW_EXPECTS(alike(values.back(), u0), "the guess for point ", point, " is ", describe(values.back()), ", but u_0 is ", describe(u0));
  }
  return values.empty() ? State{} : stack(values);
}

}  // namespace

at::Tensor tensor_of(std::span<const double> numbers) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(numbers.size())}, at::kDouble);
  std::ranges::copy(numbers, tensor.data_ptr<double>());
  return tensor;
}

std::span<const double> numbers_of(const at::Tensor& tensor) {
  TW_EXPECTS(tensor.scalar_type() == at::kDouble && tensor.is_contiguous(), "numbers must be in a contiguous float64 tensor, got ",
             describe({tensor}));
  return {tensor.const_data_ptr<double>(), static_cast<size_t>(tensor.numel())};
}

Result<State> detail::solve(const Communicator& comm, const State& u0, int64_t steps, std::function<State(double, double, const State&)> step,
                            const Options<State>& options) {
  const Communicator own = comm.dup();
  expect_same_on_all_ranks(own, "u_0 and the options of mgrit::solve()", lines_of(u0, steps, options));
  validate(u0, steps, options);  // the arguments are the same on all ranks: all throw, and no rank waits for another
  return revoke_on_exception(own, [&]() -> Result<State> {
    const c10::AutoGradMode no_gradients(false);
    MgritOptions solver = options.solver;
    if (options.guess) solver.cycle.skip_downcycle = false;
    const LevelOptions levels{options.levels, options.coarsening, options.min_coarse};
    Mgrit mgrit(own, level_plan(steps, own.size(), levels, StepOwner::right, options.costs), solver, options.final_relaxation);
    const LevelPlan& plan = mgrit.plan();
    StepwisePropagator propagator([&](const March& march, int64_t k, const State& from) {
      const int64_t stride = march.plan.level(march.level).stride;
      const double t = time_of(k * stride, steps, options);
      const double dt = options.times.empty() ? static_cast<double>(stride) * (options.final_time / static_cast<double>(steps))
                                              : time_of((k + 1) * stride, steps, options) - t;
      return detached(step(t, dt, from));
    });
    const State origin = detached(u0);
    Solution solution = mgrit.solve(propagator, origin, guess_at_c_points(plan, own.rank(), origin, options));

    const Rank last(plan.home(0, steps));
    const State end =
        own.rank() == last ? clone(solution.end) : each(origin, [](const at::Tensor& t) { return at::empty_like(t, at::MemoryFormat::Contiguous); });
    broadcast(own, end, last);
    std::vector<State> values;
    for (int64_t i = 0; i < solution.points.front().size(0); ++i) values.push_back(row(solution.points, i));
    return {{std::move(values), solution.first, solution.spacing, end}, std::move(solution.report)};
  });
}

}  // namespace tw::layer_parallel::mgrit
