// SPDX-License-Identifier: Apache-2.0
// What a search is given beside its space: trials put in by hand, and results from elsewhere.
#include "searches.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <tw/base/concat.hpp>
#include <tw/search/enqueue.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>
#include <vector>

namespace tw::search {
namespace inputs_search_test {

using testing::bowl;
using testing::fresh_folder;
using testing::plane;
using testing::world;

int64_t times_tried(const std::filesystem::path& folder, const std::vector<double>& values) {
  const Ledger ledger = read_ledger(folder, plane());
  return std::ranges::count_if(ledger.trials, [&](const LedgerEntry& each) { return each.individual.values == values; });
}

/// Objectives may change the working directory; the journal, and what is put into its queue, stay where they were.
TEST(InputsSearch, AJournalStaysWhereItIs) {
  const auto here = std::filesystem::current_path();
  const auto folder = fresh_folder("relative");
  std::filesystem::current_path(folder.parent_path());
  Search search(world(), plane(), bowl, {.evaluations = 8, .journal = folder.filename()});
  std::filesystem::current_path("/");
  if (world().rank() == 0) enqueue(folder, {{"x", "0.5"}, {"y", "0.5"}});
  world().barrier();
  EXPECT_EQ(search.run().complete, 8);
  std::filesystem::current_path(here);
  world().barrier();
  EXPECT_EQ(read_ledger(folder, plane()).trials.size(), 8U);
  EXPECT_EQ(times_tried(folder, {0.5, 0.5}), 1);
  world().barrier();
}

/// Before the search begins, and between its runs, the second of which breeds again what the first one bred; also what a process had taken that was
/// lost before it could say so. Each is tried once, and is one of the evaluations.
TEST(InputsSearch, TrialsArePutInByHand) {
  const auto folder = fresh_folder("put_in");
  SearchOptions options{.evaluations = 20 * world().size(), .seed = 3, .journal = folder};
  if (world().rank() == 0) {
    EXPECT_EQ(enqueue(folder, {{"x", "1"}, {"y", "2"}}), 0);
    EXPECT_EQ(enqueue(folder, {{"x", "-3"}}), 1);
    EXPECT_EQ(enqueue(folder, {{"x", "7"}}), 2) << "which is outside";
    EXPECT_EQ(enqueue(folder, {{"x", "4"}}), 3);
    std::filesystem::rename(folder / "queue" / "000003.json", folder / "queue" / "000003.claimed");
  }
  world().barrier();
  for (int run = 0; run < 3; ++run) {
    ::testing::internal::CaptureStderr();
    const SearchResult result = Search(world(), plane(), bowl, options).run();
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(result.complete, options.evaluations);
    EXPECT_EQ(read_ledger(folder, plane()).epochs, 1);
    world().barrier();
    const std::vector<std::vector<double>> queued{{1, 2}, {-3, 0}, {4, 0}};
    for (const std::vector<double>& values : queued) EXPECT_EQ(times_tried(folder, values), 1) << values[0];
    EXPECT_EQ(times_tried(folder, {0.5, 0.5}), run == 0 ? 0 : 1);
    EXPECT_EQ(std::filesystem::exists(folder / "queue" / "000002.refused"), true);
    if (run == 0 && world().size() == 1) {
      EXPECT_NE(told.find("parameter 'x' cannot be '7'"), std::string::npos) << told;
    }
    world().barrier();
    if (run == 0 && world().rank() == 0) {
      EXPECT_EQ(enqueue(folder, {{"x", "0.5"}, {"y", "0.5"}}), 4);
    }
    options.evaluations += 5 * world().size();
    world().barrier();
  }
}

/// It ends with the trial that its own objective puts in.
TEST(InputsSearch, TrialsArePutIntoARunningSearch) {
  const auto folder = fresh_folder("put_into_running");
  bool is_put_in = false;
  const auto enqueuing = [&](const Configuration& c, Trial& trial) -> Outcome {
    if (world().rank() == 0 && !is_put_in && trial.number() > 0) {
      enqueue(folder, {{"x", "0"}, {"y", "0"}});
      is_put_in = true;
    }
    return bowl(c, trial);
  };
  Search search(world(), plane(), enqueuing, {.seconds = 60, .target = 0, .journal = folder});
  const SearchResult result = search.run();
  EXPECT_EQ(result.best.values, (std::vector<double>{0, 0}));
  EXPECT_LT(result.seconds, 60);
}

/// The configuration that the space starts at is tried first nevertheless.
TW_TEST_ON(InputsSearch, TheStartOfTheSpaceComesFirst, {.most = 1}) {
  const auto folder = fresh_folder("start_first");
  enqueue(folder, {{"x", "1"}});
  const Space space{real("x", -5, 5).starting_at("2")};
  Search search(world(), space, [](const Configuration& c, Trial&) -> Outcome { return c.real("x"); }, {.evaluations = 2, .journal = folder});
  search.run();
  EXPECT_EQ(search.population().find(0)->values[0], 2);
  EXPECT_EQ(search.population().find(1)->values[0], 1);
}

/// Propagators and populations know of results from elsewhere from the beginning, in later runs and layouts, too. They are no evaluations, not the
/// best, and do not reach the target.
TEST(InputsSearch, BeginsWithResultsFromElsewhere) {
  const auto folder = fresh_folder("warm");
  const auto csv = folder.string() + ".csv";
  if (world().rank() == 0) std::ofstream(csv) << "x,y,loss\n1,2,-100\n3,4,7\n8,8,0\n";
  world().barrier();
  int64_t told = 0;
  SearchOptions options{.evaluations = 6 * world().size(), .target = -50, .journal = folder, .warm_start = csv};
  options.propagator = [&](const WorkerContext& seat) {
    class Listener : public Propagator {
     public:
      Listener(const Space& space, int64_t& told) : space_(space), told_(told) {}
      Proposal ask(const Population& population, CounterRng&) override {
        EXPECT_EQ(population.find(-1)->loss, -100);
        EXPECT_EQ(population.ranked(0).trial, -1);
        return {space_.decode({0.25, 0.25}), {}};
      }
      void tell(const Individual& individual) override { told_ += individual.trial < 0 ? 1 : 0; }

     private:
      const Space& space_;
      int64_t& told_;
    };
    return std::make_unique<Listener>(seat.space, told);
  };
  for (const int islands : {1, 1, 2}) {
    if (islands > world().size()) continue;
    options.islands = islands;
    told = 0;
    Search search(world(), plane(), bowl, options);
    const SearchResult result = search.run();
    EXPECT_EQ(told, 2) << "the third one is outside";
    EXPECT_EQ(result.complete, options.evaluations);
    EXPECT_GE(result.best.trial, 0);
    EXPECT_EQ(result.best.loss, 8.75) << "(-2.5)^2 + 2.5";
    const Ledger ledger = read_ledger(folder, plane());
    EXPECT_EQ(std::ssize(ledger.trials), options.evaluations);
    ASSERT_EQ(ledger.known.size(), 2U);
    EXPECT_EQ(ledger.known[1].loss, 7);
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove(csv);  // the journal has them
    options.evaluations += 2 * world().size();
    world().barrier();
  }
}

}  // namespace inputs_search_test
}  // namespace tw::search
