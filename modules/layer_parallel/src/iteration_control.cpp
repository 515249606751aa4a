// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/iteration_control.hpp>

#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>

namespace tw::layer_parallel {
namespace {

// The last residual divided by the one before: 0 if only rounding errors are left, infinite if not finite, -1 without two residuals.
double last_factor(const Report& report) {
  const auto last = static_cast<int>(report.residuals.size()) - 1;
  const auto factor = report.convergence_factor(last);
  if (last < 0 || !report.residuals.back()) return -1;
  const double residual = *report.residuals.back();
  if (!std::isfinite(residual)) return std::numeric_limits<double>::infinity();
  return residual <= report.rounding ? 0 : factor.value_or(-1);
}

template <class Take>
void for_each_direction(const NetworkReport& report, const Take& take) {
  for (const auto& block : report.blocks) {
    take(concat("block ", block.name, ", forward"), block.forward);
    take(concat("block ", block.name, ", backward"), block.backward);
  }
}

std::string text_of(Iterations iterations) {
  return iterations.forward == 0 ? "serial" : concat(iterations.forward, " iterations forward and ", iterations.backward, " backward");
}

// The larger of the two; 0, which means serial, wins.
int raised_to(int64_t raised, int scheduled) { return raised == 0 || scheduled == 0 ? 0 : std::max(static_cast<int>(raised), scheduled); }

}  // namespace

void visit(DetectorOptions& options, OptionVisitor& visitor) {
  const std::vector<std::pair<std::string, Reaction>> reactions{
      {"warn", Reaction::warn}, {"more_iterations", Reaction::more_iterations}, {"serial", Reaction::serial}};
  visitor.field("every", options.every, at_least(0),
                {.meaning = "training passes between two checks of the convergence; 0: no checks", .unit = "training passes"});
  visitor.field("bound", options.bound, {.least = 0, .excludes_least = true},
                {.meaning = "largest accepted convergence factor of a pass with twice the iterations"});
  visitor.field("reaction", options.reaction, reactions, {.meaning = "reaction to a convergence factor above the bound"});
  visitor.field("max_iterations", options.max_iterations, at_least(1),
                {.meaning = "largest number of iterations; beyond it, the reaction more_iterations becomes serial"});
}

void visit(IterationSchedule& schedule, OptionVisitor& visitor) {
  visitor.field("epochs", schedule.epochs, at_least(1, any_count), {.meaning = "epochs at which the iteration counts change, ascending"});
  visitor.field("forward", schedule.forward, at_least(0), {.meaning = "iterations of a forward pass from each of these epochs on; 0: serial"});
  visitor.field("backward", schedule.backward, at_least(0), {.meaning = "iterations of a backward pass from each of these epochs on"});
}

void visit(IterationOptions& options, OptionVisitor& visitor) {
  visitor.field("levels", options.levels, at_least(1), {.meaning = "maximum number of multigrid levels; 1: serial"});
  visitor.field("coarsening", options.coarsening, at_least(2), {.meaning = "layers, or time steps, of a level per step of the next level"});
  visitor.field("forward_iterations", options.forward_iterations, at_least(0), {.meaning = "iterations of a forward pass; 0: serial"});
  visitor.field("backward_iterations", options.backward_iterations, at_least(0),
                {.meaning = "iterations of a backward pass; 0 if both passes are serial"});
  visitor.field("relaxations", options.relaxations, at_least(0), {.meaning = "relaxations before each restriction; 0: F-, 1: FCF-relaxation"});
  visitor.group("schedule", options.schedule);
  visitor.group("detector", options.detector);
}

std::vector<IterationStage> IterationSchedule::stages() const {
  std::vector<IterationStage> stages;
  for (size_t i = 0; i < epochs.size(); ++i) stages.push_back({epochs[i], {forward.at(i), backward.at(i)}});
  return stages;
}

std::vector<Problem> IterationOptions::contradictions() const {
  std::vector<Problem> problems;
  if ((forward_iterations == 0) != (backward_iterations == 0)) {
    problems.push_back(
        {"layer_parallel.backward_iterations", "and layer_parallel.forward_iterations must be both 0 (serial), or both positive", "1 and 1"});
  }
  const auto& [epochs, forward, backward] = schedule;
  if (forward.size() != epochs.size() || backward.size() != epochs.size()) {
    problems.push_back(
        {"layer_parallel.schedule.epochs",
         concat("has ", epochs.size(), " entries, but layer_parallel.schedule.forward has ", forward.size(), " and backward has ", backward.size()),
         "the same number in each"});
  }
  return problems;
}

void DetectorOptions::validate() const { expect_none(out_of_bounds(*this)); }

IterationControl::IterationControl(std::shared_ptr<TrainableModel> model, std::shared_ptr<IteratedNetwork> network,
                                   std::vector<IterationStage> schedule, const DetectorOptions& detector)
    : ModelDecorator(std::move(model)),
      network_(std::move(network)),
      schedule_(std::move(schedule)),
      detector_(detector),
      first_(network_->iterations()),
      raised_(at::full({2}, -1, at::kLong)) {
  detector_.validate();
  for (size_t i = 0; i < schedule_.size(); ++i) {
    const auto& [epoch, iterations] = schedule_[i];
    TW_EXPECTS(epoch >= 1 && (i == 0 || epoch > schedule_[i - 1].epoch), "epochs of a schedule must ascend from at least 1, but entry ", i + 1,
               " has epoch ", epoch);
    TW_EXPECTS(iterations.forward >= 0 && iterations.backward >= 0 && (iterations.forward == 0) == (iterations.backward == 0), "iterations of epoch ",
               epoch, " must be positive, or 0 and 0 for serial, got ", iterations.forward, " and ", iterations.backward);
  }
}

Iterations IterationControl::wanted(int64_t epoch) const {
  Iterations iterations = first_;
  for (const IterationStage& stage : schedule_) {
    if (stage.epoch <= epoch) iterations = stage.iterations;
  }
  const auto* const raised = raised_.const_data_ptr<int64_t>();
  return {raised_to(raised[0], iterations.forward), raised_to(raised[1], iterations.backward)};
}

void IterationControl::set(Iterations iterations) {
  if (iterations != network_->iterations()) network_->set_iterations(iterations);
}

void IterationControl::pass(const TrainingPass& pass) {
  const Iterations usual = wanted(pass.epoch);
  const bool looks = detector_.every > 0 && pass.number % detector_.every == 0 && usual.forward > 0;
  set(looks ? Iterations{std::max(2 * usual.forward, 3), std::max(2 * usual.backward, 3)} : usual);
  inner()->pass(pass);
  report_ = network_->report();
  warn_of_divergence(pass.number);
  if (!looks) return;
  check_convergence(pass.number, usual);
  set(wanted(pass.epoch));  // so that evaluations until the next pass use the same iterations as that pass
}

void IterationControl::warn_of_divergence(int64_t number) {
  bool diverged = false;
  for_each_direction(report_, [&](const std::string& where, const Report& report) {
    if (!report.diverged) return;
    diverged = true;
    if (diverged_ || network_->comm().rank() != 0) return;
    const auto residual = [&](size_t from_the_end) {
      const size_t n = report.residuals.size();
      return from_the_end < n && report.residuals[n - 1 - from_the_end] ? concat(*report.residuals[n - 1 - from_the_end]) : std::string("none");
    };
    log_warning("training pass ", number, ", ", where, ": the iterations diverge; on the finest of ", report.steps.size(),
                " levels, the residual after iteration ", report.iterations, " is ", residual(0), ", and the one before was ", residual(1),
                report.serial ? "; solved serially" : "");
  });
  diverged_ = diverged;
}

void IterationControl::check_convergence(int64_t number, Iterations usual) {
  Detection found{.pass = number, .iterations = usual, .where = "", .then = usual};
  bool any = false;
  bool iterates = false;
  for_each_direction(report_, [&](const std::string& where, const Report& report) {
    iterates = iterates || report.iterations > 0;
    const double factor = last_factor(report);
    if (factor < 0) return;
    if (!any || factor > found.factor) found.where = where;
    found.factor = std::max(found.factor, factor);
    any = true;
  });
  TW_EXPECTS(any || !iterates, "a detector needs residuals, which this network does not compute: set residuals = true");
  found.fired = found.factor > detector_.bound;
  if (found.fired && detector_.reaction != Reaction::warn) {
    const bool more = detector_.reaction == Reaction::more_iterations && 2 * std::max(usual.forward, usual.backward) <= detector_.max_iterations;
    found.then = more ? Iterations{2 * usual.forward, 2 * usual.backward} : Iterations{0, 0};
    auto* const raised = raised_.mutable_data_ptr<int64_t>();
    raised[0] = found.then.forward;
    raised[1] = found.then.backward;
  }
  if (found.fired && network_->comm().rank() == 0) {
    log_warning("training pass ", number, ", ", found.where, ": the iterations converge by a factor of ", found.factor, "; the bound is ",
                detector_.bound, found.then == usual ? "" : concat("; later passes: ", text_of(found.then)));
  }
  history_.push_back(std::move(found));
}

std::vector<NamedShard> IterationControl::shards() const {
  std::vector<NamedShard> shards = inner()->shards();
  NamedShard raised = whole("layer_parallel.iterations", raised_, ShardKind::counter);
  raised.on_reshard = OnReshard::drop;
  shards.push_back(std::move(raised));
  return shards;
}

}  // namespace tw::layer_parallel
