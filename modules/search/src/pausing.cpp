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
  const std::optional<int64_t> trial = next_paused();
  if (!trial) return false;
  if (journal_) {
    journal_->note(Record::Kind::resume, *trial);
    journal_->write();
  }
  run_on(std::move(paused_.extract(*trial).mapped()));
  return true;
}

/// A promoted trial goes on before anything begins. Members of a population begin first, and then the one with the fewest steps goes on.
std::optional<int64_t> Trials::next_paused() {
  if (promotion_ && !promoted_) {
    const Promotion::Promoted next = promotion_->next([this](int64_t trial) { return paused_.contains(trial); });
    if (next.trial >= 0) promoted_ = next.trial;
  }
  if (!training_ || quota_.left() > 0) return std::exchange(promoted_, std::nullopt);
  const Course* next = nullptr;
  for (const auto& [trial, course] : paused_) {
    if (!course.original && (next == nullptr || course.step < next->step)) next = &course;
  }
  return next == nullptr ? std::nullopt : std::optional(next->individual.trial);
}

bool Trials::anyone_goes_on(const Communicator& workers, const bool& is_over) {
  if (!promotion_) return false;
  post_.settle();  // it may be heard now that all is over
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
      end_(course.ended(),
           {.loss = std::numeric_limits<double>::infinity(), .state = TrialState::failed, .message = concat("the loss is ", course.value)});
    }
  }
}

}  // namespace tw::search
