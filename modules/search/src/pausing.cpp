// SPDX-License-Identifier: Apache-2.0
// Trials that pause: at the rungs of a promotion, or in a population, so that the members of a worker train in turn.
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/mpi/collectives.hpp>

#include "trials.hpp"

namespace tw::search {

void Trials::pause(Course course) {
  const int64_t trial = course.individual.trial;
  if (journal_) journal_->note(Record::Kind::pause, trial);
  course.resumed_at = course.step;
  Course& here = paused_[trial] = std::move(course);
  if (here.original) copy_original(here);
}

bool Trials::resume_one() {
  const std::optional<Claim> next = next_paused();
  if (help(next)) {
    promoted_ = next;
    return true;
  }
  if (!next) return false;
  Evaluator::Workers workers{place_.worker};
  if (place_.options.growth) {
    workers = helpers_.gather(*next);
    if (workers.empty()) {
      promoted_ = next;  // it waits
      return true;
    }
  }
  if (journal_) {
    journal_->note(Record::Kind::resume, next->trial);
    if (workers.size() > 1) journal_->team(next->trial, workers);
    journal_->write();
  }
  run_on(std::move(paused_.extract(next->trial).mapped()), workers);
  return true;
}

/// @param own of this worker's trials, the one that goes on next
bool Trials::help(const std::optional<Claim>& own) {
  return helpers_.help(own, [this] { attend(); });
}

/// A promoted trial goes on before anything begins. Members of a population begin first, and then the one with the fewest steps goes on.
std::optional<Claim> Trials::next_paused() {
  if (promotion_ && !promoted_) {
    Promotion::Promoted next = promotion_->next();
    while (next.trial >= 0 && !paused_.contains(next.trial)) next = promotion_->next();  // it failed on its way to the pause
    if (next.trial >= 0) promoted_ = {.rung = next.rung, .trial = next.trial};
  }
  if (!training_ || quota_.left() > 0) return std::exchange(promoted_, std::nullopt);
  const Course* next = nullptr;
  for (const auto& [trial, course] : paused_) {
    if (!course.original && (next == nullptr || course.step < next->step)) next = &course;
  }
  return next == nullptr ? std::nullopt : std::optional(Claim{.trial = next->individual.trial});
}

bool Trials::anyone_goes_on(const Communicator& workers, const bool& is_over) {
  if (!promotion_) return false;
  post_.settle([this] { help({}); });  // it may be heard now that all is over
  if (!is_over) promoted_ = next_paused();
  int64_t goes_on = promoted_ ? 1 : 0;
  mpi::allreduce(workers, {&goes_on, 1, ElementType::int64}, ReduceOp::max);
  return goes_on != 0;
}

void Trials::end_paused() {
  for (auto& [trial, course] : std::exchange(paused_, {})) {
    if (std::isfinite(course.value)) {
      end_(course.ended(), {.loss = course.value, .state = TrialState::pruned});
    } else {
      end_(course.ended(), {.state = TrialState::failed, .message = concat("the loss is ", course.value)});
    }
  }
}

}  // namespace tw::search
