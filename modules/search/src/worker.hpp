// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/search/journal.hpp>
#include <tw/search/options.hpp>
#include <tw/search/search.hpp>
#include <vector>

#include "evaluator.hpp"
#include "island.hpp"
#include "past.hpp"
#include "place.hpp"
#include "post.hpp"
#include "progress_line.hpp"
#include "queue.hpp"
#include "quota.hpp"
#include "trials.hpp"

namespace tw::search {

/// A worker's first rank: proposes trials, evaluates them together with its other ranks, and exchanges messages with other workers.
class Worker {
 public:
  /// Collective. @param workers the first ranks of all workers; duplicated. All other arguments are borrowed
  Worker(const Communicator& workers, Evaluator& evaluator, const Space& space, const SearchOptions& options, const Layout& layout);

  /// Runs until the budget of all workers is used up. Collective over the workers.
  void run();
  /// The result of all workers. Collective.
  SearchResult result();
  const Population& population() const noexcept { return island_.population(); }

 private:
  // Restoring from the journal: restore.cpp.
  void restore();
  void rebuild(Past& past);
  void replay(const JournalFile& mine, const History& all);
  void continue_journal(const Past& past, bool begins);
  void catch_up(const Past& past);
  void bring_home(const Past& past);
  void requeue(const Past& past);

  // Evaluations.
  void work();
  Individual next_individual();
  Proposal proposal_for(int64_t trial);
  void begin(Individual individual);
  std::optional<Interrupted> next_interrupted();
  void begin_again(const Interrupted& interrupted);
  void end(Individual individual, const Evaluation& evaluation);

  // Messages from and to other workers.
  void take(const Message& message, int from);
  void note_new(const Individual& individual);
  void stop_all();
  StatusMessage status() const;
  std::vector<Individual> front_of_all();

  void write_journal() {
    if (journal_) journal_->write();
  }
  bool is_of_island(const Individual& individual) const { return individual.island % place_.layout.islands() == place_.island; }
  bool is_time_up() const { return since_begin_.elapsed().count() >= place_.options.seconds; }

  Communicator workers_;
  const Place place_;
  std::optional<JournalWriter> journal_;
  Quota quota_;
  Queue queue_;
  Post post_;
  Island island_;
  Trials trials_;
  ProgressLine progress_;

  std::deque<Interrupted> interrupted_;  // trials that this worker repeats
  Turns turns_;                          // of all workers' interrupted trials
  int64_t first_trial_ = 0;
  int64_t proposed_ = 0;  // trials of this worker in this epoch
  bool stopped_ = false;

  Stopwatch since_begin_;
  std::vector<int64_t> counts_ = std::vector<int64_t>(5, 0);  // of this worker in this run, by state
  int64_t past_ = 0;                                          // evaluations of earlier runs
  std::vector<int64_t> past_counts_ = std::vector<int64_t>(5, 0);
  std::optional<Individual> best_;  // the best trial of this search, without warm-start results
  std::string first_failure_;
};

}  // namespace tw::search
