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

/// After each evaluation a worker may send one individual, which it evaluated or received, to another island.
struct MigrationOptions {
  double probability = 0.05;
  bool copies = false;  ///< pollination: a copy is sent and replaces another individual there. Otherwise the individual moves
  Pick emigrant = Pick::best;
  Pick replaced = Pick::worst;  ///< the individual that a copy replaces
  /// One row per island: the weights of all islands as destinations, in any unit, 0 for itself. With no row or an empty one, all other islands are
  /// equally likely.
  std::vector<std::vector<double>> topology = {};
};
void visit(MigrationOptions& migration, OptionVisitor& visitor);

/// The search, island and worker for which a propagator is made.
struct WorkerContext {
  const Space& space;
  int64_t evaluations = 0;  ///< SearchOptions::evaluations when the journal began; 0: no limit
  uint64_t seed = 0;        ///< seed of the island, in this layout
  int worker = 0;           ///< index of the worker in its island
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
/// - PopulationTrainingOptions: the trials of an island are the members of a population. Those of one worker train in turn, and bad members
///   continue from the states of good ones. `evaluations` is the number of members, which cover the space evenly unless `propagator` determines them
using Scheduler = std::variant<RunToEnd, StoppingFactory, PromotionOptions, PopulationTrainingOptions>;

struct SearchOptions {
  int islands = 1;                       ///< number of islands, among which workers are divided as evenly as possible
  std::vector<int> island_workers = {};  ///< number of workers of each island; `islands` may then be left out
  int ranks_per_worker = 1;
  std::vector<int> worker_ranks = {};  ///< number of ranks of each worker, in rank order, if they differ

  // The search ends at the first of these limits. Set at least one of `evaluations` and `seconds`.
  int64_t evaluations = 0;                                   ///< total over all workers and earlier runs; 0: no limit
  double seconds = std::numeric_limits<double>::infinity();  ///< duration of this run; trials in flight are finished
  double target = -std::numeric_limits<double>::infinity();  ///< a loss that is good enough

  /// Names of the values that the objective returns, in order; all are minimised. One or none: a loss. With several, no trial stops early.
  std::vector<std::string> objectives = {};

  uint64_t seed = 0;
  /// Folder of the journal. A search that it holds is continued. A relative path refers to the working directory when the Search is constructed.
  /// Empty: no journal.
  std::filesystem::path journal = {};
  /// Results from elsewhere, received like migrants at the start: the folder of another search's journal, or a CSV file. The CSV has a column for
  /// each parameter and a column `loss`, or one for each of several objectives. Other columns, and results that do not fit the space, are ignored.
  /// Empty: none.
  std::filesystem::path warm_start = {};
  int max_attempts = 2;           ///< a trial has failed once its process was lost this many times and no other trial can be the cause
  bool allow_duplicates = false;  ///< whether configurations may be repeated, for noisy losses; otherwise new ones come first (Distinct)
  MigrationOptions migration = {};
  /// Makes the propagator; by default automatic().
  std::function<std::unique_ptr<Propagator>(const WorkerContext&)> propagator = {};
  Scheduler scheduler = {};
  /// Whether rank 0 prints the progress of this run to std::cout, in evaluations, or in seconds if `evaluations` is 0. Otherwise a search prints
  /// nothing; its log lines go to the function of set_log_function().
  bool progress = false;

  /// Problems of options that contradict each other, whatever the number of ranks.
  std::vector<Problem> contradictions() const;
  /// @throws ContractError naming the wrong field
  void validate(int ranks) const;
};
void visit(SearchOptions& options, OptionVisitor& visitor);
/// Visits the options for workers, budget and journal. Leaves out `progress`, `migration`, the scheduler and its options, and those that only C++ can
/// set.
void visit_run(SearchOptions& options, OptionVisitor& visitor);

}  // namespace tw::search
