// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tw/search/journal.hpp>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "evaluator.hpp"
#include "island.hpp"
#include "place.hpp"
#include "post.hpp"
#include "quota.hpp"

namespace tw::search {

/// The trials of a worker that have begun and not ended: the one that runs, and those that pause. See pausing.cpp and copying.cpp.
class Trials {
 public:
  using End = std::function<void(Individual individual, const Evaluation& evaluation)>;

  /// @param journal may be given its writer later. @param end called when a trial has ended. All others are borrowed
  Trials(const Place& place, Evaluator& evaluator, Post& post, std::optional<JournalWriter>& journal, Island& island, const Quota& quota, End end);

  /// Has the objective go on with it, until the trial ends or pauses.
  void begin(Individual individual);
  /// Resumes a paused trial. @return false: none may resume now
  bool resume_one();
  /// Whether a member of a population pauses until another one's state has come.
  bool any_waits() const { return training_ && !paused_.empty(); }
  /// Sends and takes what trials carry. Not while one runs: the worker's other ranks take part.
  void exchange();

  /// Whether a trial of any worker is promoted, now that all have reported what they had. Collective over the workers.
  /// @param is_over no trial of this worker may go on
  bool anyone_goes_on(const Communicator& workers, const bool& is_over);
  /// The search is over for those that nobody goes on with.
  void end_paused();

  /// A report of another trial than the one that runs.
  void observe(const Report& report);
  /// Any trial has ended.
  void note_end(const Individual& individual);
  void take(const ReportMessage& message, int from);
  void take(const StateRequest& request, int from);
  void take(const StateResponse& response, int from) { exchanges_.emplace_back(response, from); }

  double busy_s() const noexcept { return busy_s_; }
  /// Of an evaluation, lately.
  double usual_s() const noexcept { return usual_s_; }

 private:
  /// A trial that has begun, and not ended.
  struct Course {
    Individual individual = {};
    int64_t step = 0;  // that it reported last
    double value = 0;
    int64_t resumed_at = std::numeric_limits<int64_t>::lowest();  // the step of its last pause
    std::optional<int64_t> original = {};                         // whose state it waits for
    std::optional<int64_t> copied = {};                           // whose state it has, while it has not reported since
    std::vector<double> own_values = {};                          // those before

    bool has_paused() const { return resumed_at != std::numeric_limits<int64_t>::lowest(); }
    /// It has reported nothing new since its last pause.
    bool is_unchanged() const { return has_paused() && step == resumed_at; }
    Individual ended() const;
  };
  void run_on(Course course);
  Verdict report(int64_t step, double value);
  void attend();

  // Trials that pause.
  void pause(Course course);
  std::optional<int64_t> next_paused();

  // Members of a population that copy each other.
  Verdict verdict_in_population(const Report& report);
  bool is_ahead(int64_t step) const;
  void copy_original(Course& course);
  void become_copy(Course& course, const std::vector<double>& values);
  void answer(const StateRequest& request, int from);
  void receive(const StateResponse& response, int from);

  const Place place_;
  Evaluator& evaluator_;
  Post& post_;
  std::optional<JournalWriter>& journal_;
  Island& island_;
  const Quota& quota_;
  End end_;

  std::unique_ptr<StoppingRule> stopping_;
  std::optional<Promotion> promotion_;
  std::optional<PopulationTraining> training_;

  std::optional<Course> running_;
  std::map<int64_t, Course> paused_;        // by trial
  std::optional<int64_t> promoted_;         // one of these that is known to resume
  std::unordered_map<int64_t, int> homes_;  // the worker of each other member, by trial
  /// States that are asked for, and such that come, with the other worker.
  std::vector<std::pair<std::variant<StateRequest, StateResponse>, int>> exchanges_;
  double busy_s_ = 0;
  double usual_s_ = 1;
};

}  // namespace tw::search
