// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tw/evolution/stopping.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

#include "evaluator.hpp"
#include "place.hpp"
#include "post.hpp"
#include "quota.hpp"

namespace tw::search {

/// A trial of this worker that has begun and not ended.
struct Course {
  /// A copy of the state of another trial, until the next report.
  struct Copied {
    int64_t original;
    std::vector<double> own_values;  // before the copy
  };

  Individual individual = {};
  int64_t step = 0;  // step of its last report
  double value = 0;
  int64_t paused_at = std::numeric_limits<int64_t>::lowest();  // the step of its last pause
  std::optional<Copied> copied = {};

  /// Whether it has reported nothing new since its last pause.
  bool is_unchanged() const { return step == paused_at; }
};

/// This worker's trials that have begun and not ended: the one that runs, and paused ones by trial.
struct OpenTrials {
  std::optional<Course> running;
  std::map<int64_t, Course> paused;
};

/// Decides on one worker's trials when they report: a trial goes on, stops, or pauses until it is resumed. This one lets all run to their ends.
class TrialScheduler {
 public:
  TrialScheduler() = default;
  TrialScheduler(const TrialScheduler&) = delete;
  TrialScheduler& operator=(const TrialScheduler&) = delete;
  virtual ~TrialScheduler() = default;

  /// A trial of this worker begins, perhaps again.
  virtual void begin(const Individual& /*individual*/) {}
  /// The running trial reports.
  virtual Verdict decide(const Report& report) { return std::isnan(report.value) ? Verdict::stop : Verdict::go_on; }
  /// Another trial has reported. @param worker worker that runs it; -1: it ended in an earlier run
  virtual void observe(const Report& /*report*/, int /*worker*/) {}
  /// Any trial has ended.
  virtual void end(const Individual& /*individual*/) {}

  /// A trial has been added to the paused ones.
  virtual void pause(int64_t /*trial*/) {}
  /// The paused trial to resume before another one begins, if any.
  virtual std::optional<int64_t> next() { return std::nullopt; }
  /// Whether paused trials will be resumed even if no worker has anything to begin.
  virtual bool resumes_all() const { return false; }
  /// Whether any worker resumes a trial now that all have reported what they had. Collective over `workers`. @param is_over true if this worker
  /// resumes none; may change during the call
  virtual bool anyone_resumes(const Communicator& /*workers*/, const bool& /*is_over*/) { return false; }

  virtual void take(const StateRequest& /*request*/, int /*from*/) {}
  virtual void take(const StateResponse& /*response*/, int /*from*/) {}
  /// Sends and receives states. Do not call it while a trial runs, because the worker's other ranks take part.
  virtual void exchange() {}
};

/// The parts of a worker that its scheduler uses.
struct SchedulerContext {
  const Place& place;
  Evaluator& evaluator;
  Post& post;
  const Quota& quota;
  OpenTrials& trials;
};

// Factories of schedulers. Arguments are borrowed, except options.
std::unique_ptr<TrialScheduler> early_stopping(const StoppingFactory& factory);
std::unique_ptr<TrialScheduler> halving_promotion(const PromotionOptions& options, const SchedulerContext& worker);
std::unique_ptr<TrialScheduler> population_scheduler(const PopulationTrainingOptions& options, const SchedulerContext& worker);

}  // namespace tw::search
