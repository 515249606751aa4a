// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/level_prediction.hpp>

#include <algorithm>
#include <bit>
#include <map>
#include <tw/base/contract.hpp>
#include <utility>

namespace tw::layer_parallel {
namespace {

/// Calls on_sweep(sweep) and on_residual() in the order of a pass.
template <class OnSweep, class OnResidual>
void visit(const LevelPlan& plan, const PassOptions& pass, OnSweep on_sweep, OnResidual on_residual) {
  for (int i = 0; plan.levels() > 1 && i < pass.iterations; ++i) {
    for (const Phase& phase : plan_cycle(plan.levels(), pass.cycle, i == 0)) {
      for (const Sweep& sweep : sweeps_of(phase)) on_sweep(sweep);
    }
    if (pass.residuals && (i > 0 || !pass.cycle.skip_downcycle)) on_residual();
  }
  on_sweep(Sweep{0, SweepKind::all});
}

/// The simulated time on each rank.
class Clocks {
 public:
  Clocks(const LevelPlan& plan, double step, double message)
      : plan_(plan), step_(step), message_(message), now_(static_cast<size_t>(plan.ranks()), 0) {}

  // Messages of a sweep go to higher ranks only, so ranks can be simulated in ascending order.
  void sweep(const Sweep& sweep) {
    std::map<std::pair<int, int64_t>, double> arrivals;  // by receiver and point
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      double& now = now_[static_cast<size_t>(rank)];
      for (const Action& action : plan_sweep(plan_, sweep.level, sweep.kind, rank)) {
        switch (action.kind) {
          using enum Action::Kind;
          case march: now += step_ * static_cast<double>(action.runs.count * action.runs.length); break;
          case send_point:
          case send_result: arrivals[{action.peer, action.point}] = now + message_; break;
          case receive_point:
          case receive_result: now = std::max(now, arrivals.at({rank, action.point})); break;
        }
      }
    }
  }

  /// A barrier of all ranks.
  void meet() {
    const auto rounds = static_cast<double>(std::bit_width(static_cast<unsigned>(plan_.ranks() - 1)));
    std::fill(now_.begin(), now_.end(), latest() + message_ * rounds);
  }

  double latest() const { return *std::max_element(now_.begin(), now_.end()); }

 private:
  const LevelPlan& plan_;
  double step_;
  double message_;
  std::vector<double> now_;
};

double time_of(const LevelPlan& plan, const PassOptions& pass, double step, double message, bool broadcasts) {
  Clocks clocks(plan, step, message);
  visit(plan, pass, [&](const Sweep& sweep) { clocks.sweep(sweep); }, [&] { clocks.meet(); });
  if (broadcasts) clocks.meet();
  return clocks.latest();
}

}  // namespace

void visit(Costs& costs, OptionVisitor& visitor) {
  visitor.field("step", costs.step, {.least = 0, .excludes_least = true}, {.meaning = "time of a layer's forward step, in any unit"});
  visitor.field("backward", costs.backward, {.least = 0, .excludes_least = true},
                {.meaning = "time of a step of the adjoint", .unit = "forward steps"});
  visitor.field("message", costs.message, {.least = 0}, {.meaning = "time from the sending of a message to its receipt, in the unit of `step`"});
  visitor.field("serial_layers", costs.serial_layers, at_least(0, any_count), {.meaning = "layers before and after the grid"});
}

void Costs::validate() const { expect_none(out_of_bounds(*this)); }

int64_t serial_step_bound(const LevelPlan& plan, const PassOptions& pass) {
  double steps = 0;
  const auto add = [&](const Sweep& sweep) {
    Clocks clocks(plan, 1, 0);
    clocks.sweep(sweep);
    steps += clocks.latest();
  };
  visit(plan, pass, add, [] {});
  return static_cast<int64_t>(steps);
}

Prediction predict(const LevelPlan& plan, const PassOptions& forward, const PassOptions& backward, const Costs& costs) {
  costs.validate();
  const double both = costs.step * (1 + costs.backward);
  const double beside = both * static_cast<double>(costs.serial_layers);
  Prediction result;
  result.serial = both * static_cast<double>(plan.level(0).steps) + beside;
  result.parallel = time_of(plan, forward, costs.step, costs.message, true) +
                    time_of(mirrored(plan), backward, costs.step * costs.backward, costs.message, false) + beside;
  result.speed_up = result.serial / result.parallel;
  return result;
}

}  // namespace tw::layer_parallel
