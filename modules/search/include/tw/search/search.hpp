// SPDX-License-Identifier: Apache-2.0
// Searches configurations by asynchronous workers on islands: no generations, no driver. Ref: Taubert et al. 2023, arXiv 2301.08713.
#pragma once
#include <memory>
#include <tw/evolution/population.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/search/options.hpp>
#include <tw/search/trial.hpp>

namespace tw::search {

struct SearchResult {
  Individual best = {};  ///< of all islands; trial -1: nothing was complete. With several objectives the first of the front
  /// Of all islands, those that no other one dominates, by ascending objectives; of equal ones the first trial. With one objective the best alone.
  std::vector<Individual> front = {};
  int64_t complete = 0;  ///< evaluations of all islands, earlier runs included
  int64_t pruned = 0;
  int64_t failed = 0;
  int64_t infeasible = 0;
  double seconds = 0;              ///< of this run
  double busy = 0;                 ///< share of this run that workers were in the objective, the mean of all
  std::string first_failure = {};  ///< of this run on this rank's worker; for messages
};

/// ```
/// Space space{real("lr", 1e-4, 1e-1, log_scale), integer("layers", 2, 10)};
/// Search search(comm, space, [](const Configuration& c, Trial& trial) { return train(trial.comm(), c); }, {.evaluations = 256});
/// auto best = search.run().best;
/// ```
/// Every worker proposes, evaluates, sends its results to the others of its island, and uses those that have arrived. With one worker, results are a
/// function of the seed, also when a run is continued from its journal; with several, of the order in which results arrived, which the journal has.
class Search {
 public:
  /// Collective. @param comm whose ranks make up the workers exactly; `space`, equal everywhere, is copied
  /// @throws ContractError on every rank for wrong options, and for a space or options that differ between ranks, naming these and what differs; what
  /// functions do is not compared. Error for a journal of another space, or one that another search uses
  Search(const Communicator& comm, Space space, Objective objective, const SearchOptions& options);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  /// Until the budget is used up. Collective. @return the same on all ranks, but for `first_failure`
  SearchResult run();
  const Space& space() const noexcept;
  /// All individuals that this rank's island knows: the same ones on all of its workers' first ranks, once run() has returned.
  const Population& population() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::search
