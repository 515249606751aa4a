// SPDX-License-Identifier: Apache-2.0
// Members of a population copy each other's states.
//
// a. A member that reports and is among the worst pauses, and its worker requests the original's state. The member waits; other members of the worker
//    continue.
// b. A worker that receives a request pauses its running trial at the next report, so that each of its ranks can send the original's tensors to
//    the rank of the same number in the requesting worker. If the original has ended, the response has no state.
// c. The member gets the state and the original's values, slightly changed. Its count of steps continues.
//
// No member waits inside an objective, and a worker responds at its next report or when its trial ends, so no two workers can wait for each other.
#include <algorithm>
#include <cmath>
#include <tw/evolution/population_training.hpp>
#include <unordered_map>
#include <utility>
#include <variant>

#include "trial_scheduler.hpp"

namespace tw::search {
namespace {

// Random numbers of a trial at a step. Proposals have the streams from 0, objectives those from 2^62, migration those from 2^63.
enum class Draw : uint64_t { original = 6, values = 7 };
CounterRng random_of(uint64_t seed, Draw draw, int64_t trial, int64_t step) {
  constexpr uint64_t max_steps = uint64_t{1} << 21;
  return CounterRng(seed, static_cast<uint64_t>(draw) << 61 | (static_cast<uint64_t>(step) % max_steps) << 40 | static_cast<uint64_t>(trial));
}

class PopulationScheduler final : public TrialScheduler {
 public:
  PopulationScheduler(const PopulationTrainingOptions& options, const SchedulerContext& worker)
      : options_(options), worker_(worker), training_(options), paused_(worker.trials.paused) {}

  Verdict decide(const Report& report) override {
    training_.observe(report);
    const bool is_due = training_.is_due(report);
    if (is_due || !std::isfinite(report.value)) {
      CounterRng random = random_of(worker_.place.options.seed, Draw::original, report.trial, report.step);
      if (const auto original = training_.original_for(report, random)) {
        awaited_[report.trial] = *original;
        return Verdict::pause;
      }
    }
    if (std::isnan(report.value)) return Verdict::stop;
    if (!exchanges_.empty() && !training_.is_at_end(report)) return Verdict::pause;
    return is_due && (worker_.quota.left() > 0 || is_ahead(report.step)) ? Verdict::pause : Verdict::go_on;
  }
  void observe(const Report& report, int worker) override {
    training_.observe(report);
    if (worker >= 0) homes_[report.trial] = worker;
  }
  void end(const Individual& individual) override {
    training_.end(individual.trial);
    awaited_.erase(individual.trial);
  }

  void pause(int64_t trial) override {
    const auto awaited = awaited_.find(trial);
    if (awaited == awaited_.end()) return;
    const int64_t original = awaited->second;
    if (const auto found = paused_.find(original); found != paused_.end()) {
      worker_.evaluator.copy(original, trial);
      become_copy(trial, found->second.individual.values);
      return;
    }
    worker_.post.send(StateRequest{.original = original, .trial = trial}, homes_.at(original));
    worker_.post.send_gathered(true);
  }
  /// New members begin first. Then the paused member with the fewest steps is resumed.
  std::optional<int64_t> next() override {
    if (worker_.quota.left() > 0) return std::nullopt;
    const Course* next = nullptr;
    for (const auto& [trial, course] : paused_) {
      if (!awaited_.contains(trial) && (next == nullptr || course.step < next->step)) next = &course;
    }
    return next == nullptr ? std::nullopt : std::optional(next->individual.trial);
  }
  bool resumes_all() const override { return true; }

  void take(const StateRequest& request, int from) override {
    const std::optional<Course>& running = worker_.trials.running;
    const bool is_here = paused_.contains(request.original) || (running && running->individual.trial == request.original);
    if (is_here) {
      exchanges_.emplace_back(request, from);
    } else {
      worker_.post.send(StateResponse{.trial = request.trial}, from);
    }
  }
  void take(const StateResponse& response, int from) override { exchanges_.emplace_back(response, from); }
  void exchange() override {
    for (const auto& each : std::exchange(exchanges_, {})) {
      std::visit([&](const auto& message) { handle(message, each.second); }, each.first);
    }
  }

 private:
  /// Whether another member of this worker that can be resumed has done fewer steps.
  bool is_ahead(int64_t step) const {
    return std::ranges::any_of(paused_, [&](const auto& each) { return !awaited_.contains(each.first) && each.second.step < step; });
  }

  /// A paused trial has received the state of the original that it awaited. @param values values of the original
  void become_copy(int64_t trial, const std::vector<double>& values) {
    Course& course = paused_.at(trial);
    CounterRng random = random_of(worker_.place.options.seed, Draw::values, trial, course.step);
    course.copied = {.original = awaited_.extract(trial).mapped(),
                     .own_values = std::exchange(course.individual.values, explored(worker_.place.space, values, options_, random))};
  }

  void handle(const StateRequest& request, int from) {
    StateResponse response{.trial = request.trial};
    if (const auto found = paused_.find(request.original); found != paused_.end()) {
      response.values = found->second.individual.values;
      worker_.evaluator.send(request.original, from);
    }
    worker_.post.send(response, from);
    worker_.post.send_gathered(true);
  }

  void handle(const StateResponse& response, int from) {
    const bool waits = awaited_.contains(response.trial);
    if (response.values.empty()) {
      awaited_.erase(response.trial);
      return;
    }
    worker_.evaluator.receive(from, waits ? response.trial : -1);
    if (waits) become_copy(response.trial, response.values);
  }

  const PopulationTrainingOptions options_;
  const SchedulerContext worker_;
  PopulationTraining training_;
  std::map<int64_t, Course>& paused_;
  std::unordered_map<int64_t, int64_t> awaited_;  // by paused trial: the original whose state it awaits
  std::unordered_map<int64_t, int> homes_;        // the worker of each other member, by trial
  /// Received requests and responses that are still to be handled, each with its sender.
  std::vector<std::pair<std::variant<StateRequest, StateResponse>, int>> exchanges_;
};

}  // namespace

std::unique_ptr<TrialScheduler> population_scheduler(const PopulationTrainingOptions& options, const SchedulerContext& worker) {
  return std::make_unique<PopulationScheduler>(options, worker);
}

}  // namespace tw::search
