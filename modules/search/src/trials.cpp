// SPDX-License-Identifier: Apache-2.0
#include "trials.hpp"

#include <cmath>
#include <tw/base/concat.hpp>
#include <utility>
#include <variant>

#include "match.hpp"

namespace tw::search {
namespace {

std::unique_ptr<TrialScheduler> scheduler_of(const SchedulerContext& worker) {
  return std::visit(Match{[](const RunToEnd&) { return std::make_unique<TrialScheduler>(); },
                          [](const StoppingFactory& factory) { return early_stopping(factory); },
                          [&](const PromotionOptions& options) { return halving_promotion(options, worker); },
                          [&](const PopulationTrainingOptions& options) { return population_scheduler(options, worker); }},
                    worker.place.options.scheduler);
}

/// The individual at its end. A copy that has not reported since keeps its values from before the copy.
Individual ended(const Course& course) {
  Individual individual = course.individual;
  if (course.copied) individual.values = course.copied->own_values;
  return individual;
}

}  // namespace

Trials::Trials(const Place& place, Evaluator& evaluator, Post& post, std::optional<JournalWriter>& journal, Island& island, const Quota& quota,
               End end)
    : evaluator_(evaluator),
      post_(post),
      journal_(journal),
      island_(island),
      shares_reports_(!std::holds_alternative<RunToEnd>(place.options.scheduler)),
      end_(std::move(end)),
      scheduler_(scheduler_of({place, evaluator, post, quota, trials_})) {}

void Trials::begin(Individual individual) {
  scheduler_->begin(individual);
  run_on({.individual = std::move(individual)});
}

void Trials::run_on(Course course) {
  const Evaluator::Listener listener{.report = [this](int64_t step, double value) { return report(step, value); },
                                     .process_messages = [this] { process_messages(); }};
  trials_.running = std::move(course);
  const Individual& individual = trials_.running->individual;
  Evaluation evaluation = evaluator_.evaluate(individual.trial, individual.values, trials_.running->step, listener);
  busy_s_ += evaluation.seconds;
  usual_s_ += 0.1 * (evaluation.seconds - usual_s_);
  trials_.running->individual.seconds += evaluation.seconds;
  Course now = *std::exchange(trials_.running, std::nullopt);
  const int64_t trial = now.individual.trial;
  if (!evaluation.paused) {
    // It had reached its end before it paused, and has not reported since: its last report counts.
    if (evaluation.state == TrialState::complete && now.is_unchanged()) evaluation.loss = now.value;
    end_(ended(now), evaluation);
    return;
  }
  if (journal_) journal_->note(Record::Kind::pause, trial);
  now.paused_at = now.step;
  trials_.paused[trial] = std::move(now);
  scheduler_->pause(trial);
}

bool Trials::resume_one() {
  const std::optional<int64_t> next = scheduler_->next();
  if (!next) return false;
  if (journal_) {
    journal_->note(Record::Kind::resume, *next);
    journal_->write();
  }
  run_on(std::move(trials_.paused.extract(*next).mapped()));
  return true;
}

void Trials::end_paused() {
  for (const auto& [trial, course] : std::exchange(trials_.paused, {})) {
    if (std::isfinite(course.value)) {
      end_(ended(course), {.loss = course.value, .state = TrialState::pruned});
    } else {
      end_(ended(course), {.state = TrialState::failed, .message = concat("the loss is ", course.value)});
    }
  }
}

Verdict Trials::report(int64_t step, double value) {
  Course& course = *trials_.running;
  // The objective began again without a stored state, and repeats steps that were already reported.
  if (step <= course.paused_at) return Verdict::go_on;
  const Report report{course.individual.trial, step, value};
  course.step = step;
  course.value = value;
  const std::optional<Course::Copied> copied = std::exchange(course.copied, std::nullopt);
  if (journal_) {
    if (copied) journal_->copy(course.individual, course.paused_at, copied->original);
    journal_->report(report.trial, step, value);
    journal_->write();
  }
  if (shares_reports_) island_.tell(ReportMessage{report});
  process_messages();
  return scheduler_->decide(report);
}

void Trials::process_messages() {
  post_.send_gathered(true);
  post_.deliver();
}

}  // namespace tw::search
