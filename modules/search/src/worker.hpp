// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/base/progress_bar.hpp>
#include <tw/search/journal.hpp>
#include <tw/search/options.hpp>
#include <tw/search/search.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "evaluator.hpp"
#include "history.hpp"
#include "layout.hpp"
#include "migration.hpp"
#include "post.hpp"
#include "presence.hpp"
#include "quota.hpp"

namespace tw::search {

/// A worker's first rank: breeds, has its ranks evaluate, and talks to the other workers.
class Worker {
 public:
  /// Collective over `workers`, the first ranks of all. @param others are borrowed
  Worker(const Communicator& workers, Evaluator& evaluator, const Space& space, const SearchOptions& options, const Layout& layout);

  /// Until the budget is used up everywhere. Collective over the workers.
  void run();
  /// Of all workers. Collective.
  SearchResult result();
  const Population& population() const noexcept { return population_; }

 private:
  // The past.
  void restore();
  void replay(const JournalFile& mine, const History& all);
  void catch_up(const std::vector<JournalFile>& files, int epoch);
  void queue_interrupted(const History& all, bool replays, size_t count);

  // Evaluations.
  void work();
  Proposal propose(int64_t trial);
  Individual bred();
  void begin(Individual individual);
  void begin_again(const Interrupted& interrupted);
  void attend();
  void migrate(int64_t trial);

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
  void end(Individual individual, const Evaluation& evaluation);

  // Trials that pause.
  void pause(Course course);
  void resume(int64_t trial);
  std::optional<int64_t> next_paused();
  bool anyone_goes_on();
  void end_paused();

  // Members of a population that copy each other.
  Verdict verdict_in_population(const Report& report);
  bool is_ahead(int64_t step) const;
  void copy_original(Course& course);
  void become_copy(Course& course, const std::vector<double>& values);
  void take_question(const News& news, int from);
  void exchange();
  void answer(const News& question, int from);
  void receive(const News& state, int from);

  // What is known.
  void absorb(const Individual& individual);
  void part_with(int64_t trial, int32_t moves);
  void leave(int64_t trial);
  void tell_island(const News& news);
  void take(const News& news, int from);
  void observe(const Report& report);
  /// @param from island
  void take_in(const Individual& individual, int from, bool replaces);

  void write_journal() {
    if (journal_) journal_->write();
  }
  bool is_time_up() const { return since_begin_.elapsed().count() >= options_.seconds; }
  void stop_all();
  void show_progress();
  void tell_status();
  std::string draw_progress();

  Communicator workers_;
  Evaluator& evaluator_;
  const Space& space_;
  const SearchOptions& options_;
  const Layout& layout_;
  int index_;
  int island_;
  Post post_;

  Population population_;
  Presence presence_;
  Wards wards_;  // whom this worker answers for
  std::unique_ptr<Propagator> propagator_;
  std::unique_ptr<StoppingRule> stopping_;
  std::optional<Promotion> promotion_;
  std::optional<PopulationTraining> training_;
  std::optional<JournalWriter> journal_;
  std::deque<Interrupted> interrupted_;  // for this worker to repeat
  std::optional<Quota> quota_;
  int64_t first_trial_ = 0;
  int64_t bred_ = 0;  // trials of this worker in this epoch
  bool stopped_ = false;

  std::optional<Course> running_;
  std::map<int64_t, Course> paused_;            // by trial
  std::optional<int64_t> promoted_;             // of these, if one is known to go on
  std::unordered_map<int64_t, int> homes_;      // the worker of each other member, by trial
  std::vector<std::pair<News, int>> exchange_;  // states that are asked for, and such that come, with the other worker

  Stopwatch since_begin_;
  double busy_s_ = 0;
  double usual_s_ = 1;                                        // of an evaluation, lately
  std::vector<int64_t> counts_ = std::vector<int64_t>(5, 0);  // of this worker in this run, by state
  int64_t past_ = 0;                                          // evaluations of earlier runs
  std::vector<int64_t> past_counts_ = std::vector<int64_t>(5, 0);
  std::string first_failure_;

  struct Status {
    int64_t evaluations = 0;
    double busy_s = 0;
    double best = std::numeric_limits<double>::infinity();
  };
  std::vector<Status> statuses_;  // on worker 0, of all
  std::optional<ProgressBar> bar_;
  Stopwatch since_status_;
};

}  // namespace tw::search
