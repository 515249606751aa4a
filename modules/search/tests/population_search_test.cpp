// SPDX-License-Identifier: Apache-2.0
// Population-based training on any number of workers.
#include "searches.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <thread>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/mpi/mailbox.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>
#include <utility>

namespace tw::search {
namespace population_search_test {

using testing::fresh_folder;
using testing::one_worker;
using testing::world;

constexpr int64_t steps = 12;

Space rates() { return {real("rate", 0.01, 1)}; }

/// What a member carries: how far it has come, at its rate for each step; who made each step, and the rank in the worker.
struct Carried {
  Carried(int64_t trial, int rank)
      : way(at::zeros({}, at::kDouble)), makers(at::full({steps}, -1, at::kLong)), rank_of_worker(at::full({}, rank, at::kLong)), trial_(trial) {}
  std::vector<NamedTensor> tensors() const { return {{"way", way}, {"makers", makers}, {"rank", rank_of_worker}}; }
  void step(int64_t step, double rate) {
    way.add_(rate);
    makers[step - 1] = trial_;
  }
  double distance() const { return -way.item<double>(); }

  at::Tensor way;
  at::Tensor makers;
  at::Tensor rank_of_worker;

 private:
  int64_t trial_;
};

/// Walks as far as it gets in this many steps.
struct Walk {
  std::chrono::microseconds pace{0};
  std::map<int64_t, int64_t> calls = {};  // by trial
  int64_t strangers = 0;                  // steps of others that members of this rank went on from, when they ended

  Outcome operator()(const Configuration& c, Trial& trial) {
    ++calls[trial.number()];
    Carried carried(trial.number(), trial.comm().rank());
    const int64_t behind = trial.attach(carried.tensors());
    EXPECT_EQ(behind == 0, calls[trial.number()] == 1);
    EXPECT_EQ(carried.rank_of_worker.item<int64_t>(), static_cast<int>(trial.comm().rank())) << "what it has is another rank's";
    EXPECT_TRUE(all_agree(trial.comm(), concat(carried.distance(), behind)));
    for (int64_t step = behind + 1; step <= steps; ++step) {
      std::this_thread::sleep_for(pace);
      carried.step(step, c.real("rate"));
      if (!trial.report(step, carried.distance())) return 1e9;
    }
    strangers += carried.makers.ne(trial.number()).sum().item<int64_t>();
    return carried.distance();
  }
};

TEST(PopulationSearch, MembersGoOnFromWhereBetterOnesAre) {
  const auto folder = fresh_folder("walk");
  Walk walk;
  Search search(world(), rates(), std::ref(walk),
                {.evaluations = 16, .seed = 3, .journal = folder, .scheduler = PopulationTrainingOptions{.interval = 2}});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, 16) << result.first_failure;
  EXPECT_TRUE(all_agree(world(), concat(result.best.trial, ' ', result.best.loss)));
  if (world().size() == 1) {
    EXPECT_LE(result.best.loss, -0.9 * steps) << "the best initial rate is above 0.9";
    EXPECT_GT(walk.strangers, 0);
  }
  if (world().rank() != 0) return;
  const Ledger ledger = read_ledger(folder, rates());
  ASSERT_EQ(ledger.trials.size(), 16U);
  EXPECT_EQ(ledger.find(result.best.trial)->individual.loss, result.best.loss);
  EXPECT_EQ(ledger.find(ledger.next_trial), nullptr);
  std::vector<double> reports;
  for (const LedgerEntry& entry : ledger.trials) {
    for (const Report& each : entry.reports) reports.push_back(each.value);
  }
  size_t copies = 0;
  for (const LedgerEntry& entry : ledger.trials) {
    copies += entry.copies.size();
    ASSERT_EQ(entry.reports.size(), static_cast<size_t>(steps)) << "each makes this many steps, once";
    for (size_t i = 0; i < entry.reports.size(); ++i) EXPECT_EQ(entry.reports[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(entry.individual.loss, entry.reports.back().value);
    EXPECT_EQ(entry.attempts, 1);
    for (const Copy& copy : entry.copies) {
      EXPECT_NE(copy.original, entry.individual.trial);
      EXPECT_EQ(copy.step % 2, 0);
      EXPECT_LT(copy.step, steps) << "at its end nothing is to be won";
      // What it reports next is what another one had reported, and a step at its own new rate; rounding is 1e-15 of 12.
      const double next = entry.reports[static_cast<size_t>(copy.step)].value;
      EXPECT_TRUE(std::ranges::any_of(reports, [&](double each) { return std::abs(each - copy.values[0] - next) < 1e-12; }));
    }
    if (!entry.copies.empty()) {
      EXPECT_EQ(entry.individual.values, entry.copies.back().values);
    }
  }
  if (world().size() == 1) {
    EXPECT_GT(copies, 0U);
  }
}

std::string content_of(const Population& population) {
  std::vector<std::string> lines;
  for (const Individual& each : population.all()) lines.push_back(concat(each.trial, ' ', std::hexfloat, each.values[0], ' ', each.loss, '\n'));
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

TW_TEST_ON(PopulationSearch, IsAFunctionOfItsSeedOnOneWorker, {.most = 1}) {
  const auto run = [](uint64_t seed) {
    Walk walk;
    Search search(world(), rates(), std::ref(walk), {.evaluations = 8, .seed = seed, .scheduler = PopulationTrainingOptions()});
    search.run();
    return content_of(search.population());
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(PopulationSearch, WorkersOfSeveralRanks) {
  const int ranks = world().size() % 2 == 0 ? 2 : world().size();
  Walk walk;
  Search search(world(), rates(), std::ref(walk),
                {.ranks_per_worker = ranks, .evaluations = 8, .seed = 1, .scheduler = PopulationTrainingOptions{.interval = 3}});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, 8) << result.first_failure;
  EXPECT_TRUE(all_agree(world(), concat(result.best.trial, ' ', result.best.loss)));
}

/// What members carry goes to workers of more ranks, and of fewer: each rank has what one that there was had.
TW_TEST_ON(PopulationSearch, WorkersOfDifferentSizes, {.least = 3}) {
  const auto objective = [](const Configuration& c, Trial& trial) -> Outcome {
    Carried carried(trial.number(), trial.comm().rank());
    const int64_t behind = trial.attach(carried.tensors());
    EXPECT_LE(carried.rank_of_worker.item<int64_t>(), static_cast<int>(trial.comm().rank()));
    EXPECT_TRUE(all_agree(trial.comm(), concat(carried.distance(), behind)));
    for (int64_t step = behind + 1; step <= steps; ++step) {
      carried.step(step, c.real("rate"));
      if (!trial.report(step, carried.distance())) break;
    }
    return carried.distance();
  };
  Search search(world(), rates(), objective,
                {.worker_ranks = {1, world().size() - 1}, .evaluations = 16, .seed = 3, .scheduler = PopulationTrainingOptions{.interval = 2}});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, 16) << result.first_failure;
}

/// One worker is much slower: the others end meanwhile, and whom it would copy may be gone.
TEST(PopulationSearch, NobodyHangsWhereSpeedsDiffer) {
  Walk walk{.pace = std::chrono::microseconds(world().rank() == 0 ? 3000 : 100)};
  Search search(world(), rates(), std::ref(walk), {.evaluations = 12, .seed = 5, .scheduler = PopulationTrainingOptions()});
  EXPECT_EQ(search.run().complete, 12);
}

TEST(PopulationSearch, OneMemberForEachWorker) {
  Walk walk{.pace = std::chrono::microseconds(200)};
  Search search(world(), rates(), std::ref(walk), {.evaluations = world().size(), .seed = 2, .scheduler = PopulationTrainingOptions{.interval = 3}});
  EXPECT_EQ(search.run().complete, world().size());
}

/// Rank 0's member is the worst. The other members report until it has resumed from the state of one of them.
TW_TEST_ON(PopulationSearch, AStateGoesToAnotherWorker, {.least = 2}) {
  constexpr int64_t announced = 100;  // steps of each of the others; fewer than Mailbox::max_in_flight
  const auto folder = fresh_folder("another_worker");
  const bool copies = world().rank() == 0;
  mpi::Mailbox signals(world());  // to rank 0: a step begins; from rank 0: its member has a copied state
  const Stopwatch watch;
  const auto is_late = [&] { return watch.elapsed() > Seconds(60); };
  int64_t begun = 0;
  double copied_loss = 0;
  bool is_over = false;
  const auto objective = [&](const Configuration& c, Trial& trial) -> Outcome {
    const at::Tensor way = at::zeros({}, at::kDouble);
    const at::Tensor maker = at::full({}, trial.number(), at::kLong);
    int64_t step = trial.attach({{"way", way}, {"maker", maker}});
    if (copies && !is_over && maker.item<int64_t>() != trial.number()) {
      is_over = true;
      copied_loss = -way.item<double>();
      for (int rank = 1; rank < world().size(); ++rank) signals.send(std::vector<std::byte>(1), Rank(rank));
    }
    // The journal gets a copy at the next report, so there always is one.
    do {
      ++step;
      if (!copies && step <= announced) signals.send(std::vector<std::byte>(1), Rank(0));
      // Waits until another member has done more steps: a member is not compared with those that have done fewer.
      while (copies && !is_over && begun < std::min(step, announced) * (world().size() - 1) && !is_late()) {
        trial.process_messages();
        if (signals.take()) ++begun;
      }
      way.add_(c.real("rate"));
      if (!trial.report(step, -way.item<double>())) break;
      if (!copies && signals.take()) is_over = true;
    } while (!is_over && !is_late());
    return -way.item<double>();
  };
  const Space space{real("rate", 0.01, 1).starting_at("0.01")};
  Search search(world(), space, objective,
                {.evaluations = world().size(), .seed = 4, .journal = folder, .scheduler = PopulationTrainingOptions{.interval = 1}});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, world().size()) << result.first_failure;
  EXPECT_TRUE(is_over) << "no state arrived within 60 s";
  if (world().rank() != 0) return;
  const Ledger ledger = read_ledger(folder, space);
  const LedgerEntry* worst = ledger.find(0);
  ASSERT_NE(worst, nullptr);
  ASSERT_FALSE(worst->copies.empty());
  const LedgerEntry* original = ledger.find(worst->copies.front().original);
  ASSERT_NE(original, nullptr);
  EXPECT_EQ(worst->worker, 0);
  EXPECT_NE(original->worker, 0);
  EXPECT_TRUE(std::ranges::any_of(ledger.trials, [&](const LedgerEntry& each) {
    return each.worker > 0 && std::ranges::find(each.reports, copied_loss, &Report::value) != each.reports.end();
  })) << "another member reported the value of this state";
}

TW_TEST_ON(PopulationSearch, AnIslandIsAPopulation, {.least = 2}) {
  const auto folder = fresh_folder("islands");
  Walk walk;
  Search search(world(), rates(), std::ref(walk),
                {.islands = 2, .evaluations = 16, .seed = 2, .journal = folder, .scheduler = PopulationTrainingOptions()});
  EXPECT_EQ(search.run().complete, 16);
  if (world().rank() != 0) return;
  const Ledger ledger = read_ledger(folder, rates());
  for (const LedgerEntry& entry : ledger.trials) {
    for (const Copy& copy : entry.copies) EXPECT_EQ(entry.individual.island, ledger.find(copy.original)->individual.island);
  }
}

/// Half of the members diverge, and go on from where others are.
TEST(PopulationSearch, WhatDivergesIsRescued) {
  int64_t sound = 0;
  Search search(one_worker(), {real("rate", 0, 1)},
                [&](const Configuration& c, Trial& trial) -> Outcome {
                  const at::Tensor x = at::full({}, 1, at::kDouble);
                  const int64_t done = trial.attach({{"x", x}});
                  if (done == 0 && c.real("rate") <= 0.5) ++sound;
                  for (int64_t step = done + 1; step <= steps; ++step) {
                    const bool diverges = c.real("rate") > 0.5;  // and is worse before
                    x.mul_(!diverges ? 1 - c.real("rate") : step < 3 ? 1 : std::nan(""));
                    if (!trial.report(step, x.item<double>())) break;
                  }
                  return x.item<double>();
                },
                {.evaluations = 12, .seed = 1, .scheduler = PopulationTrainingOptions{.resample = 0}});
  const SearchResult result = search.run();
  EXPECT_LT(sound, 12);
  EXPECT_GT(result.complete, sound);
  EXPECT_EQ(result.complete + result.failed, 12);
}

TEST(PopulationSearch, SaysThatNothingIsAttached) {
  Search search(one_worker(), rates(),
                [](const Configuration& c, Trial& trial) -> Outcome {
                  for (int64_t step = 1; step <= steps; ++step) {
                    if (!trial.report(step, c.real("rate"))) break;
                  }
                  return c.real("rate");
                },
                {.evaluations = 4, .scheduler = PopulationTrainingOptions()});
  const SearchResult result = search.run();
  EXPECT_GT(result.failed, 0);
  EXPECT_NE(result.first_failure.find("attaches no tensors"), std::string::npos) << result.first_failure;
}

TEST(PopulationSearch, EndsInTime) {
  Walk walk{.pace = std::chrono::milliseconds(5)};
  Search search(world(), rates(), std::ref(walk), {.evaluations = 40 * world().size(), .seconds = 0.3, .scheduler = PopulationTrainingOptions()});
  const SearchResult result = search.run();
  EXPECT_GT(result.pruned, 0) << "all would take 2.4 s; those that were paused have what they reported last";
  EXPECT_LT(result.best.loss, 0);
}

/// Cut where members were paused: they begin again, none of them counts as lost, and as many are evaluated as were asked for.
TW_TEST_ON(PopulationSearch, GoesOnFromItsJournal, {.most = 1}) {
  const auto folder = fresh_folder("resume");
  const auto run = [&] {
    Walk walk;
    Search search(world(), rates(), std::ref(walk),
                  {.evaluations = 6, .seed = 2, .journal = folder, .max_attempts = 1, .scheduler = PopulationTrainingOptions()});
    EXPECT_EQ(search.run().failed, 0);
    return content_of(search.population());
  };
  const std::string whole = run();
  const auto path = folder / "000-00000.journal";
  const std::vector<Record> records = read_journal(folder)[0].records;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  // Before the first one has ended, after a pause: all begin again, so it is the same search.
  const auto first_end = std::ranges::find(records, Record::Kind::end, &Record::kind);
  ASSERT_NE(first_end, records.end());
  int cuts = 0;
  for (int64_t cut = size; cut > 0; cut -= 97) {
    std::filesystem::resize_file(path, static_cast<uintmax_t>(cut));
    const std::vector<JournalFile> files = read_journal(folder);
    if (files.empty() || files[0].records.empty()) break;
    const std::vector<Record>& left = files[0].records;
    if (left.back().kind != Record::Kind::pause) continue;
    if (std::ranges::find(left, Record::Kind::end, &Record::kind) != left.end()) continue;
    EXPECT_EQ(run(), whole) << "cut at " << cut;
    if (++cuts == 3) break;
  }
  EXPECT_GT(cuts, 0);
}

TEST(PopulationSearch, RefusesWhatIsWrong) {
  Walk walk;
  EXPECT_THROW(Search(world(), rates(), std::ref(walk), {.seconds = 1, .scheduler = PopulationTrainingOptions()}), ContractError);
  EXPECT_THROW(Search(world(), rates(), std::ref(walk), {.evaluations = 4, .scheduler = PopulationTrainingOptions{.frozen = {"width"}}}),
               ContractError);
}

}  // namespace population_search_test
}  // namespace tw::search
