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
  const std::optional<int64_t> next = next_paused();
  if (!next) return false;
  if (journal_) {
    journal_->note(Record::Kind::resume, *next);
    journal_->write();
  }
  run_on(std::move(paused_.extract(*next).mapped()));
  return true;
}

/// A promoted trial goes on before anything begins. Members of a population begin first, and then the one with the fewest steps goes on.
std::optional<int64_t> Trials::next_paused() {
  if (promotion_ && !promoted_) {
    int64_t next = promotion_->next().trial;
    while (next >= 0 && !paused_.contains(next)) next = promotion_->next().trial;  // it failed on its way to the pause
    if (next >= 0) promoted_ = next;
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
  post_.settle();
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
