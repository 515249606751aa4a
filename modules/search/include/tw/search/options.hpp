// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/option.hpp>
#include <tw/evolution/population_training.hpp>
#include <tw/evolution/promotion.hpp>
#include <tw/evolution/propagator.hpp>
#include <tw/evolution/stopping.hpp>
#include <vector>

namespace tw::search {

/// Which individual a worker sends to another island, and which one a copy replaces.
enum class Pick { best, worst, uniform };

/// After each evaluation a worker may send one of its individuals to another island: those that it evaluated or received.
struct MigrationOptions {
  double probability = 0.05;
  bool copies = false;  ///< pollination: a copy goes, and takes the place of another there. Otherwise it moves
  Pick emigrant = Pick::best;
  Pick replaced = Pick::worst;  ///< by a copy
  /// By island, the probability of each other one as the destination, in any unit; no row, or an empty one: all others alike.
  std::vector<std::vector<double>> topology = {};
};
void visit(MigrationOptions& migration, OptionVisitor& visitor);

/// The search, island and worker for which a propagator is made.
struct WorkerContext {
  const Space& space;
  int64_t evaluations = 0;  ///< of the whole search, as they were when its journal began; 0: not limited
  uint64_t seed = 0;        ///< of the island, in this layout
  int worker = 0;           ///< of its island
  int workers = 1;
  int island = 0;
  size_t objectives = 1;
};

struct SearchOptions {
  int islands = 1;                       ///< of as equal numbers of workers as can be
  std::vector<int> island_workers = {};  ///< workers of each island, which then need not be counted
  int ranks_per_worker = 1;
  std::vector<int> worker_ranks = {};  ///< ranks of each worker, in the order of ranks, where they are not all alike

  // Whatever comes first ends the search; one of the first two must be given.
  int64_t evaluations = 0;                                   ///< exactly this many, of all workers and earlier runs together; 0: no limit
  double seconds = std::numeric_limits<double>::infinity();  ///< trials in flight are finished
  double target = -std::numeric_limits<double>::infinity();  ///< a loss that will do

  /// Names of what the objective returns, in that order: all are to be small. One, or none: a loss. With several, no trial stops early.
  std::vector<std::string> objectives = {};

  uint64_t seed = 0;
  /// A folder; where it holds a search, that is continued. Relative to the working directory in which the search is made. Empty: none.
  std::filesystem::path journal = {};
  /// Results from elsewhere that a search begins with, received like migrants: the folder of another one's journal, or a CSV with a column
  /// `loss`, or one for each of several objectives, and one for each parameter. What the space does not have is left out. Empty: none.
  std::filesystem::path warm_start = {};
  int max_attempts = 2;           ///< a trial whose process was lost so often has failed
  bool allow_duplicates = false;  ///< configurations may be tried again, as noisy losses need it; otherwise none is while others are left (Distinct)
  MigrationOptions migration = {};
  /// By default automatic().
  std::function<std::unique_ptr<Propagator>(const WorkerContext&)> propagator = {};
  /// None: nothing stops early.
  std::function<std::unique_ptr<StoppingRule>()> stopping = {};
  /// Trials pause at the rungs, and those that are among the best 1/eta there go on, before new ones begin. Instead of `stopping`.
  std::optional<HalvingOptions> promotion = {};
  /// The trials of an island are a population: all train side by side, each worker's in turn, and bad ones go on from where good ones are.
  /// `evaluations` is the number of members, which cover the space evenly unless `propagator` determines them. Instead of `stopping`.
  std::optional<PopulationTrainingOptions> population_training = {};
  bool progress = false;  ///< rank 0 shows how far this run has come: of its evaluations, or else of its seconds

  /// What cannot be had together, on however many ranks.
  std::vector<Problem> contradictions() const;
  /// @throws ContractError naming the wrong field
  void validate(int ranks) const;
};
void visit(SearchOptions& options, OptionVisitor& visitor);
/// Visits the options of workers, budget and journal: not `promotion`, `population_training`, `migration`, and what only C++ can set.
void visit_run(SearchOptions& options, OptionVisitor& visitor);

}  // namespace tw::search
