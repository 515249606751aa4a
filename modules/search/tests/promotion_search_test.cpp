// SPDX-License-Identifier: Apache-2.0
// Trials that pause at rungs until they are promoted, on any number of workers.
#include "searches.hpp"

#include <ATen/ops/zeros.h>
#include <algorithm>
#include <filesystem>
#include <map>
#include <tw/base/concat.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>

namespace tw::search {
namespace promotion_search_test {

using testing::by_chance;
using testing::fresh_folder;
using testing::line;
using testing::world;

constexpr int64_t steps = 27;
const PromotionOptions rungs{{.grace = 1, .eta = 3, .max_steps = steps}};  // 1, 3, 9 and 27 steps

double value_at(double x, int64_t step) { return x + 1 / static_cast<double>(step); }

/// Descends to x. @param taken steps on this rank
Objective descent(bool attaches, int64_t& taken) {
  return [&taken, attaches](const Configuration& c, Trial& trial) -> Outcome {
    const at::Tensor done = at::zeros({}, at::kLong);
    const int64_t behind = attaches ? trial.attach({{"done", done}}) : 0;
    EXPECT_EQ(done.item<int64_t>(), behind) << "the state is of another step";
    for (int64_t step = behind + 1; step <= steps; ++step) {
      ++taken;
      done.add_(1);
      if (!trial.report(step, value_at(c.real("x"), step))) return -1;
    }
    return value_at(c.real("x"), steps);
  };
}

/// Late trials are no better than early ones, so that a third of a rung is a third.
/// Of each rung, the best third (by what all have reported at the end) has gone on, each to where the next one ends, and nobody from the lower half.
void expect_promoted(const Ledger& ledger) {
  for (int64_t rung = 1; rung < steps; rung *= 3) {
    std::vector<std::pair<double, int64_t>> here;  // value, and steps in all
    for (const LedgerEntry& entry : ledger.trials) {
      const auto at = std::ranges::find(entry.reports, rung, &Report::step);
      if (at != entry.reports.end()) here.emplace_back(at->value, entry.reports.back().step);
    }
    std::ranges::sort(here);
    ASSERT_FALSE(here.empty()) << "nobody has come to step " << rung;
    for (size_t i = 0; i < here.size() / 3; ++i) EXPECT_GE(here[i].second, 3 * rung) << "number " << i << " at step " << rung;
    size_t went_on = 0;
    for (const auto& [value, last] : here) {
      went_on += last > rung ? 1 : 0;
      EXPECT_TRUE(last == rung || last >= 3 * rung) << last;
    }
    EXPECT_LT(went_on, here.size() * 2 / 3 + 1);
  }
}

TEST(PromotionSearch, TheBestOfEachRungGoOn) {
  for (const bool attaches : {true, false}) {
    const auto folder = fresh_folder(attaches ? "attached" : "again");
    int64_t taken = 0;
    Search search(world(), line(), descent(attaches, taken),
                  {.evaluations = 60, .seed = 1, .journal = folder, .propagator = by_chance, .scheduler = rungs});
    const SearchResult result = search.run();
    EXPECT_EQ(result.complete + result.pruned, 60) << result.first_failure;
    EXPECT_GT(result.complete, 0);
    world().barrier();
    if (world().rank() != 0) continue;
    const Ledger ledger = read_ledger(folder, line());
    expect_promoted(ledger);
    int64_t reported = 0;
    for (const LedgerEntry& entry : ledger.trials) {
      reported += static_cast<int64_t>(entry.reports.size());
      for (size_t i = 0; i < entry.reports.size(); ++i) EXPECT_EQ(entry.reports[i].step, static_cast<int64_t>(i) + 1) << "each step is told once";
      EXPECT_EQ(entry.individual.state, entry.reports.size() == steps ? TrialState::complete : TrialState::pruned);
      EXPECT_EQ(entry.individual.loss, entry.reports.back().value);
    }
    if (world().size() > 1) continue;
    EXPECT_GT(result.pruned, 30);
    EXPECT_LT(result.best.loss, 0.2);
    if (attaches) {
      EXPECT_EQ(taken, reported) << "no step is made twice";
    } else {
      EXPECT_GT(taken, reported);
    }
  }
}

TW_TEST_ON(PromotionSearch, IsAFunctionOfItsSeedOnOneWorker, {.most = 1}) {
  const auto run = [] {
    int64_t taken = 0;
    Search search(world(), line(), descent(true, taken), {.evaluations = 40, .seed = 2, .scheduler = rungs});
    return concat(search.run().best.loss, ' ', taken);
  };
  EXPECT_EQ(run(), run());
}

TEST(PromotionSearch, WorkersOfSeveralRanks) {
  int64_t taken = 0;
  const int ranks = world().size() % 2 == 0 ? 2 : world().size();
  Search search(world(), line(), descent(true, taken), {.ranks_per_worker = ranks, .evaluations = 30, .seed = 1, .scheduler = rungs});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete + result.pruned, 30) << result.first_failure;
  EXPECT_GT(result.complete, 0);
}

TEST(PromotionSearch, GoesOnFromItsJournal) {
  const auto folder = fresh_folder("resume");
  for (const int64_t evaluations : {30, 60}) {
    int64_t taken = 0;
    Search search(world(), line(), descent(true, taken), {.evaluations = evaluations, .seed = 1, .journal = folder, .scheduler = rungs});
    const SearchResult result = search.run();
    EXPECT_EQ(result.complete + result.pruned, evaluations);
    EXPECT_EQ(result.failed, 0);
  }
}

TEST(PromotionSearch, FailuresDoNotHoldOthersUp) {
  Search search(world(), line(),
                [](const Configuration& c, Trial& trial) -> Outcome {
                  const int64_t kind = trial.number() / 4 % 4;  // of each worker's trials, about as many of each kind
                  const at::Tensor nothing = at::zeros({1});
                  for (int64_t step = trial.attach({{"nothing", nothing}}) + 1; step <= steps; ++step) {
                    if (kind == 1 && step == 3) throw std::runtime_error("broken");
                    if (!trial.report(step, kind == 2 ? NAN : value_at(c.real("x"), step))) break;
                  }
                  return value_at(c.real("x"), steps);
                },
                {.evaluations = 160, .scheduler = rungs});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete + result.pruned + result.failed, 160);
  // About 120 come to the first rung, of whom 40 go on; a third of these fail, so 27 come to the second, 9 to the third, and 3 to the end.
  EXPECT_GT(result.complete, 0);
  EXPECT_GT(result.failed, 20);
}

}  // namespace promotion_search_test
}  // namespace tw::search
