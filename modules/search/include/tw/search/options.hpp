// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <tw/base/option.hpp>
#include <tw/evolution/population_training.hpp>
#include <tw/evolution/promotion.hpp>
#include <tw/evolution/propagator.hpp>
#include <tw/evolution/stopping.hpp>
#include <variant>
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
struct Seat {
  const Space& space;
  int64_t evaluations = 0;  ///< of the whole search, as they were when its journal began; 0: not limited
  uint64_t seed = 0;        ///< of the island, in this layout
  int worker = 0;           ///< of its island
  int workers = 1;
  int island = 0;
  size_t objectives = 1;
};

/// All trials run to their ends.
struct RunToEnd {};
/// Makes the rule that stops trials early: `[] { return median_rule(); }`.
using StoppingFactory = std::function<std::unique_ptr<StoppingRule>()>;
/// What happens to trials that report: one of
/// - RunToEnd
/// - a StoppingFactory
/// - PromotionOptions: trials pause at rungs; those among the best 1/eta of a rung are resumed, before new ones begin
/// - PopulationTrainingOptions: the trials of an island are a population, each worker's train in turn, and bad ones continue from the states of good
///   ones. `evaluations` is the number of members, which cover the space evenly unless `propagator` determines them
using Scheduler = std::variant<RunToEnd, StoppingFactory, PromotionOptions, PopulationTrainingOptions>;

struct SearchOptions {
  int islands = 1;                       ///< of as equal numbers of workers as can be
  std::vector<int> island_workers = {};  ///< workers of each island, which then need not be counted
  int ranks_per_worker = 1;
  std::vector<int> worker_ranks = {};  ///< ranks of each worker, in the order of ranks, where they are not all alike

  // Whatever comes first ends the search; one of the first two must be given.
  int64_t evaluations = 0;                                   ///< exactly this many, of all workers and earlier runs together; 0: no limit
  double seconds = std::numeric_limits<double>::infinity();  ///< trials in flight are finished
  double target = -std::numeric_limits<double>::infinity();  ///< a loss that will do

  /// Names of what the objective returns, in that order: all are to be small. One, or none: a loss. With several, all trials run to their ends.
  std::vector<std::string> objectives = {};

  uint64_t seed = 0;
  /// A folder; where it holds a search, that is continued. Relative to the working directory in which the search is made. Empty: none.
  std::filesystem::path journal = {};
  /// Results from elsewhere that a search begins with, received like migrants: the folder of another one's journal, or a CSV with a column
  /// `loss`, or one for each of several objectives, and one for each parameter. What the space does not have is left out. Empty: none.
  std::filesystem::path warm_start = {};
  int attempts = 2;      ///< a trial whose process was lost so often has failed
  bool repeats = false;  ///< configurations may be tried again, as noisy losses need it; otherwise none is while others are left (Distinct)
  MigrationOptions migration = {};
  /// By default automatic().
  std::function<std::unique_ptr<Propagator>(const Seat&)> propagator = {};
  Scheduler scheduler = {};
  bool progress = false;  ///< rank 0 shows how far this run has come: of its evaluations, or else of its seconds

  /// What cannot be had together, on however many ranks.
  std::vector<Problem> contradictions() const;
  /// @throws ContractError naming the wrong field
  void validate(int ranks) const;
};
void visit(SearchOptions& options, OptionVisitor& visitor);
/// Visits the options of workers, budget and journal: not `scheduler`, `migration`, and what only C++ can set.
void visit_run(SearchOptions& options, OptionVisitor& visitor);

}  // namespace tw::search
