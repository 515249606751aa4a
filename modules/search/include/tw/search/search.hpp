// SPDX-License-Identifier: Apache-2.0
// Searches configurations with asynchronous workers on islands: no generations, no central driver. Ref: Taubert et al. 2023, arXiv 2301.08713.
#pragma once
#include <memory>
#include <tw/evolution/population.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/search/options.hpp>
#include <tw/search/trial.hpp>

namespace tw::search {

struct SearchResult {
  Individual best = {};  ///< best of all islands; trial -1: no trial is complete or pruned. With several objectives, the first of the front
  /// The Pareto front of all islands, sorted by ascending objectives; of equal individuals, only the first trial. With one objective, only `best`.
  std::vector<Individual> front = {};
  int64_t complete = 0;  ///< complete evaluations of all islands, including earlier runs
  int64_t pruned = 0;
  int64_t failed = 0;
  int64_t infeasible = 0;
  double seconds = 0;              ///< of this run
  double busy = 0;                 ///< share of this run that workers spent in the objective, mean over all workers
  std::string first_failure = {};  ///< message of the first failure of this run on this rank's worker
};

/// ```
/// Space space{real("lr", 1e-4, 1e-1, log_scale), integer("layers", 2, 10)};
/// Search search(comm, space, [](const Configuration& c, Trial& trial) { return train(trial.comm(), c); }, {.evaluations = 256});
/// auto best = search.run().best;
/// ```
/// Each worker proposes, evaluates, sends its results to the other workers of its island, and uses the results that have arrived. With one worker,
/// results depend only on the seed, even if a run is continued from its journal. With several workers, they also depend on the order in which results
/// arrive, which the journal records.
class Search {
 public:
  /// Collective. @param comm all of its ranks belong to workers, so their number must match `ranks_per_worker` or `worker_ranks`.
  /// @param space copied; must be equal on all ranks
  /// @throws ContractError on every rank for wrong options, and for a space or options that differ between ranks, naming these ranks and what
  /// differs; functions are not compared. Error for a journal of another space, or one that another search is using
  Search(const Communicator& comm, Space space, Objective objective, const SearchOptions& options);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Runs until the budget is used up. Collective. @return the same on all ranks, except `first_failure`
  SearchResult run();
  const Space& space() const noexcept;
  /// All individuals that this rank's island knows. Once run() has returned, they are the same on the first ranks of all its workers.
  const Population& population() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::search
