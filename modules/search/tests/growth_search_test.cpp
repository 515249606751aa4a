// SPDX-License-Identifier: Apache-2.0
// Promoted trials that run on the ranks of several workers.
#include "searches.hpp"

#include <ATen/ops/zeros.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>

namespace tw::search {
namespace growth_search_test {

using testing::by_chance;
using testing::fresh_folder;
using testing::line;
using testing::world;

constexpr int64_t steps = 8;
const HalvingOptions rungs{.grace = 1, .eta = 2, .max_steps = steps};  // 1, 2, 4 and 8 steps
constexpr double forever = 600;                                        // seconds: so long that nobody goes on with fewer ranks than it wants

/// The samples of a step, shared out among ranks: whole numbers, whose sum is the same in any order.
double gradient(const Communicator& comm, int64_t step) {
  double sum = 0;
  for (int64_t sample = comm.rank(); sample < 60; sample += comm.size()) sum += static_cast<double>(sample * step % 7);
  if (comm.size() > 1) mpi::allreduce(comm, {&sum, 1, ElementType::float64}, ReduceOp::sum);
  return sum;
}

/// Trains in parallel on whatever ranks there are; what it comes to is a function of its x alone, and not of who they are.
struct Training {
  std::function<void(Trial&, int64_t step)> at_step = {};
  std::map<int64_t, int> sizes = {};  // of teams that this rank was in, the smallest, by the step after which they began

  Outcome operator()(const Configuration& c, Trial& trial) {
    const at::Tensor way = at::zeros({}, at::kDouble);
    const int64_t behind = trial.attach({{"way", way}});
    const int size = trial.comm().size();
    const auto known = sizes.emplace(behind, size).first;
    known->second = std::min(known->second, size);
    EXPECT_TRUE(all_agree(trial.comm(), concat(trial.number(), ' ', behind, ' ', way.item<double>())));
    const auto loss = [&] { return c.real("x") + 1 / (1 + way.item<double>()); };
    for (int64_t step = behind + 1; step <= steps; ++step) {
      if (at_step) at_step(trial, step);
      way.add_(gradient(trial.comm(), step));
      if (!trial.report(step, loss())) return -1;
    }
    return loss();
  }
};

/// What each trial would report on this rank alone.
std::map<int64_t, std::vector<double>> reports_alone(int64_t evaluations) {
  const Communicator alone = world().subset({world().rank()});
  std::map<int64_t, std::vector<double>> reports;
  const auto noting = [&](const Configuration& c, Trial& trial) -> Outcome {
    const at::Tensor way = at::zeros({}, at::kDouble);
    std::vector<double>& mine = reports[trial.number()];
    for (int64_t step = 1; step <= steps; ++step) {
      way.add_(gradient(trial.comm(), step));
      mine.push_back(c.real("x") + 1 / (1 + way.item<double>()));
    }
    return mine.back();
  };
  Search(alone, line(), noting, {.evaluations = evaluations, .seed = 1, .propagator = by_chance}).run();
  return reports;
}

/// @param wanted by the step after which a team begins
void expect_sizes(const Training& training, const std::map<int64_t, int>& wanted) {
  for (const auto& [behind, ranks] : wanted) {
    const auto found = training.sizes.find(behind);
    if (found == training.sizes.end()) continue;
    EXPECT_EQ(found->second, ranks) << "after step " << behind;
  }
}

void expect_the_same_as_alone(const Ledger& ledger) {
  const auto alone = reports_alone(2 * static_cast<int64_t>(ledger.trials.size()));  // numbers depend on who takes how many
  for (const LedgerEntry& entry : ledger.trials) {
    const auto found = alone.find(entry.individual.trial);
    if (found == alone.end()) continue;
    for (size_t i = 0; i < entry.reports.size(); ++i) {
      EXPECT_EQ(entry.reports[i].step, static_cast<int64_t>(i) + 1) << "each step is made once";
      EXPECT_EQ(entry.reports[i].value, found->second[i]) << "trial " << entry.individual.trial << ", step " << i + 1;
    }
    EXPECT_EQ(entry.individual.loss, entry.reports.back().value);
  }
}

/// Two workers of one rank become one of two at the last rung.
TW_TEST_ON(GrowthSearch, TheLastRungRunsOnAllRanks, {.least = 2}) {
  const auto folder = fresh_folder("last");
  Training training;
  const SearchOptions options{.evaluations = 20,
                              .seed = 1,
                              .journal = folder,
                              .propagator = by_chance,
                              .promotion = rungs,
                              .growth = {{.ranks = {1, 1, world().size()}, .patience = forever}}};
  const SearchResult result = Search(world(), line(), std::ref(training), options).run();
  EXPECT_EQ(result.complete + result.pruned, 20) << result.first_failure;
  EXPECT_GT(result.complete, 0);
  expect_sizes(training, {{0, 1}, {1, 1}, {2, 1}, {4, world().size()}});
  world().barrier();
  if (world().rank() != 0) return;
  const Ledger ledger = read_ledger(folder, line());
  expect_the_same_as_alone(ledger);
  size_t grown = 0;
  for (const LedgerEntry& entry : ledger.trials) {
    const bool is_last = entry.reports.back().step > 4;
    ASSERT_EQ(entry.growths.size(), is_last ? 1U : 0U);
    if (!is_last) continue;
    ++grown;
    const Growth& growth = entry.growths.front();
    EXPECT_EQ(growth.workers.size(), static_cast<size_t>(world().size()));
    EXPECT_EQ(growth.workers.front(), entry.worker);
    EXPECT_GE(growth.from, entry.begin);
    EXPECT_EQ(growth.to, entry.end);
  }
  EXPECT_EQ(grown, static_cast<size_t>(result.complete));
}

/// At each rung more, by workers of different sizes, of which one may be too large for what is left.
TW_TEST_ON(GrowthSearch, GrowsFromRungToRung, {.least = 3}) {
  const std::vector<int> workers = world().size() == 3 ? std::vector<int>{1, 1, 1} : std::vector<int>{1, world().size() - 2, 1};
  Training training;
  const SearchOptions options{.worker_ranks = workers,
                              .evaluations = 20,
                              .seed = 1,
                              .propagator = by_chance,
                              .promotion = rungs,
                              .growth = {{.ranks = {2, world().size()}, .patience = forever}}};
  const SearchResult result = Search(world(), line(), std::ref(training), options).run();
  EXPECT_EQ(result.complete + result.pruned, 20) << result.first_failure;
  EXPECT_GT(result.complete, 0);
  expect_sizes(training, {{1, 2}, {2, world().size()}, {4, world().size()}});
}

/// With little patience a trial takes whoever is there at that moment, and nobody else is waited for.
TEST(GrowthSearch, GoesOnWithWhatThereIs) {
  const auto folder = fresh_folder("impatient");
  Training training;
  const SearchOptions options{
      .evaluations = 20, .seed = 1, .journal = folder, .propagator = by_chance, .promotion = rungs, .growth = {{.ranks = {2, 4}, .patience = 1e-3}}};
  const SearchResult result = Search(world(), line(), std::ref(training), options).run();
  EXPECT_EQ(result.complete + result.pruned, 20) << result.first_failure;
  if (world().rank() == 0) expect_the_same_as_alone(read_ledger(folder, line()));
}

/// Each island keeps to its own workers.
TW_TEST_ON(GrowthSearch, TakesNobodyFromAnotherIsland, {.least = 4}) {
  const auto folder = fresh_folder("islands");
  Training training;
  const SearchOptions options{.islands = 2,
                              .evaluations = 32,
                              .seed = 1,
                              .journal = folder,
                              .propagator = by_chance,
                              .promotion = rungs,
                              .growth = {{.ranks = {4}, .patience = forever}}};
  const SearchResult result = Search(world(), line(), std::ref(training), options).run();
  EXPECT_EQ(result.complete + result.pruned, 32) << result.first_failure;
  expect_sizes(training, {{1, 2}, {2, 2}, {4, 2}});
  if (world().rank() != 0) return;
  for (const LedgerEntry& entry : read_ledger(folder, line()).trials) {
    for (const Growth& growth : entry.growths) {
      std::vector<int32_t> sorted = growth.workers;
      std::ranges::sort(sorted);
      const int first = entry.individual.island == 0 ? 0 : 2;
      EXPECT_EQ(sorted, (std::vector<int32_t>{first, first + 1}));
    }
  }
}

/// A rank that helps throws, the first time: the trial has failed, with the message, and everyone goes on with others, in the same team as well.
TW_TEST_ON(GrowthSearch, AHelperThatFailsIsFreeAgain, {.least = 2}) {
  const auto folder = fresh_folder("failing_helper");
  Training training;
  int helped = 0;
  training.at_step = [&](Trial& trial, int64_t step) {
    const bool helps = trial.comm().size() > 1 && trial.comm().rank() == trial.comm().size() - 1;
    if (helps && step == 3 && helped++ == 0) throw std::runtime_error("broken part");
  };
  const SearchOptions options{.evaluations = 32,
                              .seed = 1,
                              .journal = folder,
                              .propagator = by_chance,
                              .promotion = rungs,
                              .growth = {{.ranks = {1, world().size()}, .patience = forever}}};
  const SearchResult result = Search(world(), line(), std::ref(training), options).run();
  EXPECT_EQ(result.complete + result.pruned + result.failed, 32);
  EXPECT_GT(result.failed, 0);
  EXPECT_GT(result.complete, 0);
  for (const LedgerEntry& entry : read_ledger(folder, line()).trials) {
    const bool has_failed = entry.individual.state == TrialState::failed;
    EXPECT_EQ(entry.message.find("broken part") != std::string::npos, has_failed) << entry.individual.trial << ": " << entry.message;
  }
}

/// As if rank 1 had been lost, and not asked to end as all others were, while it helped with a trial of rank 0.
TW_TEST_ON(GrowthSearch, WhoHelpsWhenItsProcessIsLostBlamesTheTrial, {.least = 2}) {
  const auto folder = fresh_folder("lost_helper");
  Training training;
  SearchOptions options{.evaluations = 2 * world().size(), .seed = 1, .journal = folder, .attempts = 1, .propagator = by_chance, .promotion = rungs};
  Search(world(), line(), std::ref(training), options).run();
  if (world().rank() == 0) {
    const JournalFile file = read_journal(folder).front();
    std::filesystem::remove(file.path);
    JournalWriter journal(folder, file.header, 0);
    journal.start(std::ranges::find(file.records, Record::Kind::start, &Record::kind)->individual, false);
    journal.report(0, 1, 0.5);
    journal.note(Record::Kind::pause, 0);
    journal.note(Record::Kind::resume, 0);
    journal.team(0, {0, 1});
    journal.write();
    for (int rank = 0; rank < world().size(); ++rank) {
      if (rank != 1) std::ofstream(folder / concat("0000", rank, ".0-of-1.ended"));
    }
  }
  world().barrier();
  const SearchResult result = Search(world(), line(), std::ref(training), options).run();
  EXPECT_EQ(result.failed, 1);
  EXPECT_EQ(result.first_failure, world().rank() == 0 ? "trial 0: its process was lost 1 times" : "");
}

/// Whoever has a part of a tensor cannot go on on other numbers of ranks.
TEST(GrowthSearch, RefusesTensorsInShards) {
  const auto objective = [](const Configuration& c, Trial& trial) -> Outcome {
    NamedShard half = whole("weight", at::zeros({4, 3}), ShardKind::parameter);
    half.tensor = half.tensor.narrow(0, 0, 2);
    trial.attach({.shards = [&] { return std::vector{half}; }});
    return c.real("x");
  };
  const SearchOptions options{
      .evaluations = 2 * world().size(), .seed = 1, .propagator = by_chance, .promotion = rungs, .growth = {{.ranks = {1}, .patience = forever}}};
  const SearchResult result = Search(world(), line(), objective, options).run();
  EXPECT_EQ(result.failed, 2 * world().size());
  if (world().rank() == 0) {
    EXPECT_NE(result.first_failure.find("tensors in shards: weight has shape [4, 3], and this rank [2, 3] of it"), std::string::npos)
        << result.first_failure;
  }
}

/// One that attaches nothing begins again, on all ranks.
TW_TEST_ON(GrowthSearch, WithoutAStateTrialsBeginAgain, {.least = 2}) {
  int largest = 0;
  const auto objective = [&](const Configuration& c, Trial& trial) -> Outcome {
    largest = std::max(largest, trial.comm().size());
    for (int64_t step = 1; step <= steps; ++step) {
      if (!trial.report(step, c.real("x") + 1 / static_cast<double>(step))) break;
    }
    return c.real("x");
  };
  const SearchOptions options{
      .evaluations = 16, .seed = 1, .propagator = by_chance, .promotion = rungs, .growth = {{.ranks = {world().size()}, .patience = forever}}};
  const SearchResult result = Search(world(), line(), objective, options).run();
  EXPECT_EQ(result.complete + result.pruned, 16) << result.first_failure;
  EXPECT_EQ(largest, world().size());
}

TW_TEST_ON(GrowthSearch, IsTheSameSearchOnOneWorker, {.most = 1}) {
  const auto run = [](bool grows) {
    Training training;
    SearchOptions options{.evaluations = 16, .seed = 2, .promotion = rungs};
    if (grows) options.growth = {{.ranks = {2, 4}, .patience = forever}};
    const SearchResult result = Search(world(), line(), std::ref(training), options).run();
    return concat(std::hexfloat, result.best.loss, ' ', result.best.trial, ' ', result.complete);
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace growth_search_test
}  // namespace tw::search
