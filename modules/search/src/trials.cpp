// SPDX-License-Identifier: Apache-2.0
#include "trials.hpp"

#include <cmath>
#include <tw/base/contract.hpp>

namespace tw::search {

Trials::Trials(const Place& place, Evaluator& evaluator, Post& post, std::optional<JournalWriter>& journal, Island& island, const Quota& quota,
               End end)
    : place_(place), evaluator_(evaluator), post_(post), journal_(journal), island_(island), quota_(quota), end_(std::move(end)) {
  const SearchOptions& options = place.options;
  if (options.stopping) {
    stopping_ = options.stopping();
    TW_EXPECTS(stopping_ != nullptr, "stopping gave no rule");
  }
  if (options.promotion) promotion_.emplace(*options.promotion);
  if (options.population_training) training_.emplace(*options.population_training);
}

void Trials::begin(Individual individual) {
  if (stopping_) stopping_->begin(individual);
  run_on({.individual = std::move(individual)});
}

void Trials::run_on(Course course) {
  const Evaluator::Listener listener{.report = [this](int64_t step, double value) { return report(step, value); }, .attend = [this] { attend(); }};
  running_ = std::move(course);
  const Individual& individual = running_->individual;
  Evaluation evaluation = evaluator_.evaluate(individual.trial, individual.values, running_->step, listener);
  busy_s_ += evaluation.seconds;
  usual_s_ += 0.1 * (evaluation.seconds - usual_s_);
  running_->individual.seconds += evaluation.seconds;
  const Course now = *std::exchange(running_, std::nullopt);
  if (evaluation.paused) {
    pause(now);
    return;
  }
  // It had come to its end before it paused, and has not found anything since.
  if (evaluation.state == TrialState::complete && now.is_unchanged()) evaluation.loss = now.value;
  end_(now.ended(), evaluation);
}

/// A copy that has not reported remains what it was.
Individual Trials::Course::ended() const {
  Individual ended = individual;
  if (copied) ended.values = own_values;
  return ended;
}

Verdict Trials::report(int64_t step, double value) {
  // It has begun once more, without a state to go on from, and was here before.
  if (step <= running_->resumed_at) return Verdict::go_on;
  const Report report{running_->individual.trial, step, value};
  running_->step = step;
  running_->value = value;
  const std::optional<int64_t> original = std::exchange(running_->copied, std::nullopt);
  if (journal_) {
    if (original) journal_->copy(running_->individual, running_->resumed_at, *original);
    journal_->report(report.trial, step, value);
    journal_->write();
  }
  if (stopping_ || promotion_ || training_) island_.tell(ReportMessage{report});
  attend();
  if (training_) return verdict_in_population(report);
  if (promotion_ && promotion_->arrive(report)) return Verdict::pause;
  if (!stopping_) return std::isnan(value) ? Verdict::stop : Verdict::go_on;
  stopping_->observe(report);
  return stopping_->goes_on(report) ? Verdict::go_on : Verdict::stop;
}

void Trials::attend() {
  post_.send_gathered(true);
  post_.deliver();
}

void Trials::observe(const Report& report) {
  if (stopping_) stopping_->observe(report);
  if (promotion_) promotion_->observe(report);
  if (training_) training_->observe(report);
}

void Trials::note_end(const Individual& individual) {
  if (stopping_) stopping_->tell(individual);
  if (training_) training_->end(individual.trial);
}

void Trials::take(const ReportMessage& message, int from) {
  observe(message.report);
  if (training_) homes_[message.report.trial] = from;
}

}  // namespace tw::search
