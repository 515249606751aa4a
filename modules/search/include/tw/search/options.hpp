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

/// How a worker chooses the individual that it sends to another island, or the one that a copy replaces.
enum class Pick { best, worst, uniform };

/// After each evaluation, a worker may send an individual to another island: one that it has evaluated, or received from another island.
struct MigrationOptions {
  double probability = 0.05;
  bool copies = false;  ///< true (pollination): a copy is sent, and replaces an individual of the other island. false: the individual itself moves
  Pick emigrant = Pick::best;
  Pick replaced = Pick::worst;  ///< the individual that a copy replaces
  /// Row i: the weights of all islands as destinations from island i, in any unit, with 0 for island i itself. If row i is missing or empty, all
  /// other islands are equally likely.
  std::vector<std::vector<double>> topology = {};
};
void visit(MigrationOptions& migration, OptionVisitor& visitor);

/// The search, island and worker for which a propagator is made.
struct WorkerContext {
  const Space& space;
  int64_t evaluations = 0;  ///< SearchOptions::evaluations when the current epoch began (JournalHeader::epoch); 0: no limit
  uint64_t seed = 0;        ///< seed of the island; another epoch has another seed
  int worker = 0;           ///< index of the worker in its island
  int workers = 1;          ///< number of workers of the island
  int island = 0;
  size_t objectives = 1;
};

/// All trials run to their ends.
struct RunToEnd {};
/// Makes the rule that stops trials early, for example `[] { return median_rule(); }`.
using StoppingFactory = std::function<std::unique_ptr<StoppingRule>()>;
/// What happens to trials that report: one of
/// - RunToEnd
/// - a StoppingFactory
/// - PromotionOptions: trials pause at certain steps (rungs). A trial among the best 1/eta at its rung is resumed before new trials begin
/// - PopulationTrainingOptions: the trials of an island are the members of a population. Each worker trains its members in turn, and bad members
///   continue from the states of good ones. `evaluations` is the number of members on all islands. They cover the space evenly unless `propagator`
///   determines them
using Scheduler = std::variant<RunToEnd, StoppingFactory, PromotionOptions, PopulationTrainingOptions>;

struct SearchOptions {
  int islands = 1;                       ///< number of islands, among which workers are divided as evenly as possible
  std::vector<int> island_workers = {};  ///< number of workers of each island; `islands` may then be left out
  int ranks_per_worker = 1;
  std::vector<int> worker_ranks = {};  ///< number of ranks of each worker, in rank order, if they differ

  // The search ends at the first of these limits. Set at least one of `evaluations` and `seconds`.
  int64_t evaluations = 0;                                   ///< total over all workers, including earlier runs; 0: no limit
  double seconds = std::numeric_limits<double>::infinity();  ///< duration of this run; trials in flight are finished
  double target = -std::numeric_limits<double>::infinity();  ///< a loss that is good enough: the search ends when a trial reaches it

  /// Names of the values that the objective returns, in order; all are minimised. One or none: the objective returns a single loss. With several,
  /// `scheduler` must be RunToEnd, and `target` must not be set.
  std::vector<std::string> objectives = {};

  uint64_t seed = 0;
  /// Folder of the journal; empty: no journal. If the folder already holds a search, that search is continued. A relative path refers to the working
  /// directory when the Search is constructed.
  std::filesystem::path journal = {};
  /// Results from elsewhere, received like migrants before the first proposal: the folder of another search's journal, or a CSV file. Empty: none.
  /// The CSV file has a column for each parameter, and a column `loss` or, with several objectives, one for each. If it has a column `state`, only
  /// rows whose state is complete, pruned or empty are used. Other columns, and results that do not fit the space, are ignored.
  std::filesystem::path warm_start = {};
  int max_attempts = 2;           ///< a trial fails after this number of process losses that no other trial can have caused
  bool allow_duplicates = false;  ///< whether configurations may be repeated, for noisy losses; otherwise none is while others are left (Distinct)
  MigrationOptions migration = {};
  /// Makes the propagator of a worker. Default: automatic(), or Sobol with PopulationTrainingOptions.
  std::function<std::unique_ptr<Propagator>(const WorkerContext&)> propagator = {};
  Scheduler scheduler = {};
  /// Whether rank 0 prints the progress of this run to std::cout, in evaluations, or in seconds if `evaluations` is 0. Apart from this, a search only
  /// writes log lines (see set_log_function()).
  bool progress = false;

  /// Contradictions between options, whatever the number of ranks.
  std::vector<Problem> contradictions() const;
  /// @throws ContractError naming the wrong field
  void validate(int ranks) const;
};
void visit(SearchOptions& options, OptionVisitor& visitor);
/// Visits all options except `progress`, `propagator`, `scheduler` and `migration`.
void visit_run(SearchOptions& options, OptionVisitor& visitor);

}  // namespace tw::search
