// SPDX-License-Identifier: Apache-2.0
// Members of a population that copy each other.
//
// a. A member that reports, and is among the worst, pauses, and has the original's worker asked for its state. It waits; others of its worker go on.
// b. A worker that is asked has its running trial pause at the next report, so that each of its ranks can send what the original carries to the rank
//    of the same number that asks. Where the original has ended, it says so.
// c. What comes is the member's own from then on, with the original's values, changed a little; its steps go on from where they were.
//
// Nobody waits in an objective, and whoever is asked answers at its next report, or when it ends: no two can wait for each other.
#include <algorithm>
#include <cmath>
#include <utility>

#include "trials.hpp"

namespace tw::search {
namespace {

// Random numbers of a trial at a step. Breeding has the streams from 0, objectives those from 2^62, migration those from 2^63.
enum class Draw : uint64_t { original = 6, values = 7 };
CounterRng random_of(uint64_t seed, Draw draw, int64_t trial, int64_t step) {
  constexpr uint64_t max_steps = uint64_t{1} << 21;
  return CounterRng(seed, static_cast<uint64_t>(draw) << 61 | (static_cast<uint64_t>(step) % max_steps) << 40 | static_cast<uint64_t>(trial));
}

}  // namespace

Verdict Trials::verdict_in_population(const Report& report) {
  training_->observe(report);
  const bool is_due = training_->is_due(report);
  if (is_due || !std::isfinite(report.value)) {
    CounterRng random = random_of(place_.options.seed, Draw::original, report.trial, report.step);
    running_->original = training_->original_for(report, random);
    if (running_->original) return Verdict::pause;
  }
  if (std::isnan(report.value)) return Verdict::stop;
  if (!exchanges_.empty() && !training_->is_at_end(report)) return Verdict::pause;
  return is_due && (quota_.left() > 0 || is_ahead(report.step)) ? Verdict::pause : Verdict::go_on;
}

/// Whether another member of this worker could go on that has done fewer steps.
bool Trials::is_ahead(int64_t step) const {
  return std::ranges::any_of(paused_, [step](const auto& each) { return !each.second.original && each.second.step < step; });
}

void Trials::copy_original(Course& course) {
  const int64_t original = *course.original;
  if (const auto found = paused_.find(original); found != paused_.end()) {
    evaluator_.copy(original, course.individual.trial);
    become_copy(course, found->second.individual.values);
    return;
  }
  post_.send(StateRequest{.original = original, .trial = course.individual.trial}, homes_.at(original));
  post_.send_gathered(true);
}

void Trials::become_copy(Course& course, const std::vector<double>& values) {
  CounterRng random = random_of(place_.options.seed, Draw::values, course.individual.trial, course.step);
  course.own_values = std::exchange(course.individual.values, explored(place_.space, values, *place_.options.population_training, random));
  course.copied = std::exchange(course.original, std::nullopt);
}

void Trials::take(const StateRequest& request, int from) {
  const bool is_here = paused_.contains(request.original) || (running_ && running_->individual.trial == request.original);
  if (is_here) {
    exchanges_.emplace_back(request, from);
  } else {
    post_.send(StateResponse{.trial = request.trial}, from);
  }
}

void Trials::exchange() {
  for (const auto& [each, from] : std::exchange(exchanges_, {})) {
    if (const auto* request = std::get_if<StateRequest>(&each)) {
      answer(*request, from);
    } else {
      receive(std::get<StateResponse>(each), from);
    }
  }
}

void Trials::answer(const StateRequest& request, int from) {
  StateResponse response{.trial = request.trial};
  if (const auto found = paused_.find(request.original); found != paused_.end()) {
    response.values = found->second.individual.values;
    evaluator_.send(found->first, from);
  }
  post_.send(response, from);
  post_.send_gathered(true);
}

void Trials::receive(const StateResponse& response, int from) {
  const auto found = paused_.find(response.trial);
  const bool waits = found != paused_.end() && found->second.original;
  if (!response.values.empty()) {
    evaluator_.receive(from, waits ? response.trial : -1);
    if (waits) become_copy(found->second, response.values);
  } else if (waits) {
    found->second.original.reset();
  }
}

}  // namespace tw::search
