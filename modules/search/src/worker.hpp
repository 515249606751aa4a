// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/base/progress_bar.hpp>
#include <tw/search/journal.hpp>
#include <tw/search/options.hpp>
#include <tw/search/search.hpp>

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
  void queue_interrupted(const History& all, bool same_layout, size_t count);

  // One evaluation.
  Individual bred();
  /// @param lost how often it had begun before
  void evaluate(Individual individual, int lost = 0);
  bool goes_on(int64_t trial, int64_t step, double value);
  void attend();
  void migrate(int64_t trial);

  // What is known.
  void absorb(const Individual& individual);
  void part_with(int64_t trial, int32_t moves);
  void leave(int64_t trial);
  void tell_island(const News& news);
  void take(const News& news, int from);
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
  std::optional<JournalWriter> journal_;
  std::deque<Interrupted> interrupted_;  // for this worker to repeat
  std::optional<Quota> quota_;
  int64_t first_trial_ = 0;
  int64_t bred_ = 0;  // trials of this worker in this epoch
  bool stopped_ = false;

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
