// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <tw/search/journal.hpp>

#include "evaluator.hpp"
#include "island.hpp"
#include "place.hpp"
#include "post.hpp"
#include "trial_scheduler.hpp"

namespace tw::search {

/// Runs a worker's trials as its scheduler decides.
class Trials {
 public:
  using End = std::function<void(Individual individual, const Evaluation& evaluation)>;

  /// @param journal may get its writer later. @param end called when a trial has ended. All other arguments are borrowed
  Trials(const Place& place, Evaluator& evaluator, Post& post, std::optional<JournalWriter>& journal, Island& island, const Quota& quota, End end);

  TrialScheduler& scheduler() noexcept { return *scheduler_; }
  /// Calls the objective. Returns when the trial ends or pauses.
  void begin(Individual individual);
  /// Resumes a paused trial. Returns when it ends or pauses. @return false if there is none to resume now
  bool resume_one();
  /// Whether paused trials wait for something other than the end of the search.
  bool any_waits() const { return scheduler_->resumes_all() && !trials_.paused.empty(); }
  /// Ends the paused trials, since the search is over and none is resumed.
  void end_paused();

  double busy_s() const noexcept { return busy_s_; }
  /// Moving average of the duration of an evaluation.
  double usual_s() const noexcept { return usual_s_; }

 private:
  void run_on(Course course);
  Verdict report(int64_t step, double value);
  void process_messages();

  Evaluator& evaluator_;
  Post& post_;
  std::optional<JournalWriter>& journal_;
  Island& island_;
  const bool shares_reports_;
  End end_;
  OpenTrials trials_;
  std::unique_ptr<TrialScheduler> scheduler_;
  double busy_s_ = 0;
  double usual_s_ = 1;
};

}  // namespace tw::search
