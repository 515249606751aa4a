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
  Individual best = {};  ///< best of all islands; with several objectives, the first of the front. Its trial is -1 if no trial is complete or pruned
  /// The Pareto front of all islands, sorted by ascending objectives. Individuals with equal objectives appear once, with the smallest trial number.
  /// With one objective, only `best`.
  std::vector<Individual> front = {};
  int64_t complete = 0;  ///< number of complete trials of all islands, including earlier runs; likewise for the next three
  int64_t pruned = 0;
  int64_t failed = 0;
  int64_t infeasible = 0;
  double seconds = 0;              ///< duration of this run
  double busy = 0;                 ///< share of this run that workers spent in the objective, mean over all workers
  std::string first_failure = {};  ///< message of the first failure of this run on this rank's worker
};

/// ```
/// Space space{real("lr", 1e-4, 1e-1, log_scale), integer("layers", 2, 10)};
/// Search search(comm, space, [](const Configuration& c, Trial& trial) { return train(trial.comm(), c); }, {.evaluations = 256});
/// auto best = search.run().best;
/// ```
/// Each worker proposes a configuration, evaluates it, sends the result to the other workers of its island, and uses the results that have arrived
/// from them. With one worker, the results of a search depend only on the seed, even if a run is continued from its journal. With several workers,
/// they also depend on the order in which messages arrive, which the journal records.
class Search {
 public:
  /// Collective. @param comm each of its ranks belongs to a worker, so their number must be a multiple of `ranks_per_worker`, or the sum of
  /// `worker_ranks`
  /// @param space copied; must be equal on all ranks
  /// @throws ContractError on every rank if options are wrong, or if the space or options (except functions) differ between ranks; the message names
  /// the wrong option, or these ranks and the difference. @throws Error if the journal has another space, seed or objectives, or is in use by another
  /// search
  Search(const Communicator& comm, Space space, Objective objective, const SearchOptions& options);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Runs until the first of the limits in SearchOptions is reached. Collective; call it once. @return the same on all ranks, except `first_failure`
  SearchResult run();
  const Space& space() const noexcept;
  /// All individuals that this rank's island knows; empty except on the first rank of each worker. Once run() has returned, all workers of an island
  /// have the same ones.
  const Population& population() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::search
