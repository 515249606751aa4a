// SPDX-License-Identifier: Apache-2.0
// A search that goes on from its journal.
#include "searches.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/objects.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/named_propagators.hpp>
#include <tw/evolution/sampling.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>
#include <vector>

#include "gaps.hpp"

namespace tw::search {
namespace resume_search_test {

using testing::bowl;
using testing::fresh_folder;
using testing::plane;
using testing::world;

std::string content_of(const Population& population) {
  std::string text;
  for (const Individual& each : population.all()) {
    text += concat(each.trial, ' ', std::hexfloat, each.values[0], ' ', each.values[1], ' ', each.loss, '\n');
  }
  return text;
}

TW_TEST_ON(ResumeSearch, OnOneWorkerIsTheUninterruptedSearch, {.most = 1}) {
  const auto cma = [](const WorkerContext& seat) { return std::make_unique<CmaEs>(seat.space, CmaOptions{}, seat.seed); };
  Search whole(world(), plane(), bowl, {.evaluations = 300, .seed = 4, .propagator = cma});
  whole.run();
  const auto folder = fresh_folder("one");
  for (const int64_t evaluations : {50, 51, 300}) {
    Search part(world(), plane(), bowl, {.evaluations = evaluations, .seed = 4, .journal = folder, .propagator = cma});
    EXPECT_EQ(part.run().complete, evaluations);
    if (evaluations == 300) {
      EXPECT_EQ(content_of(part.population()), content_of(whole.population()));
    }
  }
}

/// The first worker waits in its first trial until it was told of the others' ends. All of these are on the disk by then, though the others have run
/// out of evaluations and write no more of their own: or a job that is killed now would lose what its workers have bred from.
TEST(ResumeSearch, NobodyHearsOfWhatTheJournalCouldLose) {
  const auto folder = fresh_folder("first_written");
  std::vector<int64_t> heard;
  const auto propagator = [&](const WorkerContext& seat) {
    class Listener : public Propagator {
     public:
      Listener(const Space& space, std::vector<int64_t>& trials) : breeder_(space), trials_(trials) {}
      Proposal ask(const Population& population, CounterRng& random) override { return breeder_.ask(population, random); }
      void tell(const Individual& individual) override { trials_.push_back(individual.trial); }

     private:
      Breeder breeder_;
      std::vector<int64_t>& trials_;
    };
    return std::make_unique<Listener>(seat.space, heard);
  };
  const auto others = static_cast<size_t>(2 * (world().size() - 1));
  const auto waiting = [&](const Configuration& c, Trial& trial) {
    if (world().rank() > 0) return bowl(c, trial);
    while (heard.size() < others) trial.process_messages();
    std::set<int64_t> written;
    for (const JournalFile& file : read_journal(folder)) {
      for (const Record& record : file.records) {
        if (record.kind == Record::Kind::end) written.insert(record.individual.trial);
      }
    }
    for (const int64_t each : heard) EXPECT_TRUE(written.contains(each)) << "trial " << each;
    return bowl(c, trial);
  };
  Search search(world(), plane(), waiting, {.evaluations = 2 * world().size(), .journal = folder, .propagator = propagator});
  EXPECT_EQ(search.run().complete, 2 * world().size());
}

/// Every worker breeds again, from its file, what it had bred: read_journal's ask is compared with each start.
TEST(ResumeSearch, WorkersReplayExactly) {
  const auto folder = fresh_folder("replay");
  for (const int64_t evaluations : {200, 200, 400}) {
    Search search(
        world(), plane(), bowl,
        {.islands = world().size() > 2 ? 2 : 1, .evaluations = evaluations, .seed = 4, .journal = folder, .migration = {.probability = 0.2}});
    EXPECT_EQ(search.run().complete, evaluations);
  }
}

/// On numbers, and on choices, where what was tried is avoided. Another layout would begin another epoch of the journal.
TEST(ResumeSearch, EveryPropagatorReplays) {
  const std::vector<Space> spaces{plane(), {integer("x", -3, 3), categorical("y", {"0", "1", "2"}), ordinal("n", {1, 2, 4}).when("y", {"1", "2"})}};
  const auto loss = [](const Configuration& c, Trial& /*trial*/) -> Outcome { return c.values()[0] * c.values()[0] + std::abs(c.values()[1]); };
  for (const NamedPropagator& named : named_propagators()) {
    const auto propagator = [&](const WorkerContext& seat) { return named.make(seat.space, seat.evaluations, seat.seed, seat.worker, seat.workers); };
    for (const Space& space : spaces) {
      const auto folder = fresh_folder("every");
      for (const int64_t evaluations : {25, 40}) {
        Search search(world(), space, loss, {.evaluations = evaluations, .seed = 4, .journal = folder, .propagator = propagator});
        EXPECT_EQ(search.run().complete, evaluations) << named.name;
      }
      EXPECT_EQ(read_ledger(folder, space).epochs, 1) << named.name;
      world().barrier();
    }
  }
}

TW_TEST_ON(ResumeSearch, NoticesThatItBreedsDifferently, {.most = 1}) {
  const auto folder = fresh_folder("different");
  Search(world(), plane(), bowl, {.evaluations = 200, .journal = folder}).run();
  const auto other = [](const WorkerContext& seat) {
    class Constant : public Propagator {
     public:
      explicit Constant(const Space& of) : space_(of) {}
      Proposal ask(const Population&, CounterRng&) override { return {space_.decode(std::vector<double>(space_.dimensions(), 0.5)), {}}; }

     private:
      const Space& space_;
    };
    return std::make_unique<Constant>(seat.space);
  };
  EXPECT_THROW(Search(world(), plane(), bowl, {.evaluations = 300, .journal = folder, .propagator = other}), FileError);
}

TEST(ResumeSearch, OnOtherRanksAndIslandsKeepsWhatIsKnown) {
  const auto folder = fresh_folder("layouts");
  const Communicator alone = world().split(world().rank() == 0 ? 0 : 1, 0);
  if (world().rank() == 0) Search(alone, plane(), bowl, {.evaluations = 60, .journal = folder}).run();
  world().barrier();
  for (const int islands : {1, 2}) {
    if (islands > world().size()) continue;
    Search search(world(), plane(), bowl, {.islands = islands, .evaluations = 60 + 60 * islands, .journal = folder});
    const SearchResult result = search.run();
    EXPECT_EQ(result.complete, 60 + 60 * islands);
    if (islands == 1) {
      EXPECT_EQ(search.population().all().size(), 120U);
    }
  }
  world().barrier();
  if (world().rank() != 0) return;
  Search search(alone, plane(), bowl, {.evaluations = 250, .journal = folder});
  EXPECT_EQ(search.run().complete, 250);
  EXPECT_EQ(search.population().all().size(), 250U);
}

/// The layout that follows does not begin the same sequence again.
TW_TEST_ON(ResumeSearch, OnOtherRanksTriesNothingTwice, {.least = 2}) {
  const auto folder = fresh_folder("sequence");
  const auto sobol = [](const WorkerContext& seat) {
    return std::make_unique<Sobol>(seat.space, seat.seed, Share{.first = seat.worker, .stride = seat.workers});
  };
  const Communicator alone = world().split(world().rank() == 0 ? 0 : 1, 0);
  if (world().rank() == 0) Search(alone, plane(), bowl, {.evaluations = 20, .journal = folder, .propagator = sobol}).run();
  world().barrier();
  Search search(world(), plane(), bowl, {.evaluations = 60, .journal = folder, .propagator = sobol});
  search.run();
  std::set<std::vector<double>> tried;
  for (const Individual& each : search.population().all()) tried.insert(each.values);
  EXPECT_EQ(tried.size(), 60U);
}

/// Cut at every byte: nothing that had ended is lost, exactly as many are evaluated as asked for, and the same ones are stopped.
TW_TEST_ON(ResumeSearch, FromAJournalThatWasCutAnywhere, {.most = 1}) {
  const auto folder = fresh_folder("cut");
  const auto reporting = [](const Configuration& c, Trial& trial) {
    const Outcome outcome = bowl(c, trial);
    for (int64_t step = 1; step <= 3 && trial.report(step, outcome.values.front() + 1.0 / static_cast<double>(step)); ++step) {
    }
    return outcome;
  };
  SearchOptions options{.evaluations = 6, .seed = 1, .scheduler = [] { return halving_rule({.grace = 1, .eta = 2}); }};
  Search whole(world(), plane(), reporting, options);
  const SearchResult expected = whole.run();
  ASSERT_GT(expected.pruned, 0);
  ASSERT_GT(expected.complete, 0);
  options.journal = folder;
  Search(world(), plane(), reporting, options).run();
  const auto path = folder / "000-00000.journal";
  std::string content(static_cast<size_t>(std::filesystem::file_size(path)), '\0');
  std::ifstream(path, std::ios::binary).read(content.data(), static_cast<std::streamsize>(content.size()));
  for (size_t cut = 0; cut <= content.size(); ++cut) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content.substr(0, cut);
    Search search(world(), plane(), reporting, options);
    const SearchResult result = search.run();
    ASSERT_EQ(result.complete, expected.complete) << "cut at " << cut;
    ASSERT_EQ(result.pruned, expected.pruned) << "cut at " << cut;
    ASSERT_EQ(content_of(search.population()), content_of(whole.population())) << "cut at " << cut;
  }
}

/// One file of several: others have bred from what is missing. (At random places, with all propagators: tests/accept/search_cuts.cpp.)
TW_TEST_ON(ResumeSearch, WhereOneOfSeveralJournalsIsCutOrMissing, {.least = 2}) {
  const auto folder = fresh_folder("one_cut");
  SearchOptions options{.evaluations = 40 * world().size(), .journal = folder};
  for (const bool missing : {false, true}) {
    Search(world(), plane(), bowl, options).run();
    if (world().rank() == 0) {
      const auto path = read_journal(folder).back().path;
      if (missing) {
        std::filesystem::remove(path);
      } else {
        std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
      }
    }
    world().barrier();
    const Ledger left = read_ledger(folder, plane());
    EXPECT_EQ(left.propagator_reason.substr(0, 8), "hybrid: ");
    world().barrier();
    options.evaluations += 8;
    ::testing::internal::CaptureStderr();
    Search again(world(), plane(), bowl, options);
    const std::string told = ::testing::internal::GetCapturedStderr();
    if (world().rank() == 0) {
      EXPECT_EQ(std::ranges::count(told, '\n'), 1) << told;
      EXPECT_NE(told.find("is incomplete"), std::string::npos) << told;
    }
    EXPECT_EQ(again.run().complete, options.evaluations);
    for (const LedgerEntry& each : left.trials) {
      if (!each.has_ended()) continue;
      const Individual* kept = again.population().find(each.individual.trial);
      ASSERT_NE(kept, nullptr) << each.individual.trial;
      EXPECT_EQ(kept->loss, each.individual.loss);
    }
  }
}

TW_TEST_ON(ResumeSearch, ATrialThatTakesItsProcessDownFails, {.most = 1}) {
  const auto folder = fresh_folder("lost");
  Search(world(), plane(), bowl, {.evaluations = 2, .journal = folder}).run();
  // As if the process had ended twice in this trial: its end is missing, it began twice, and nothing else was running.
  const auto path = folder / "000-00000.journal";
  auto file = read_journal(folder)[0];
  std::filesystem::remove(path);
  JournalWriter journal(folder, file.header, 0);
  journal.start(file.records[0].individual, false);
  journal.record_loss(file.records[0].individual.trial, Blame::sole);
  journal.start(file.records[0].individual, true);
  journal.write();
  int evaluated = 0;
  Search search(world(), plane(),
                [&](const Configuration& c, Trial& trial) {
                  evaluated += trial.number() == 0 ? 1 : 0;
                  return bowl(c, trial);
                },
                {.evaluations = 5, .journal = folder});
  const SearchResult result = search.run();
  EXPECT_EQ(evaluated, 0);
  EXPECT_EQ(result.failed, 1);
  EXPECT_EQ(result.complete, 4);
  EXPECT_NE(result.first_failure.find("lost"), std::string::npos) << result.first_failure;
}

/// As if the job had been lost with the first trial of each worker in flight, after it had been lost so a number of times.
std::filesystem::path lost_job(const std::string& name, const SearchOptions& options, int times) {
  const auto folder = fresh_folder(name);
  SearchOptions first = options;
  first.journal = folder;
  first.evaluations = world().size();
  Search(world(), plane(), bowl, first).run();
  if (world().rank() == 0) {
    for (const JournalFile& file : read_journal(folder)) {
      std::filesystem::remove(file.path);
      JournalWriter journal(folder, file.header, 0);
      const Individual& trial = std::ranges::find(file.records, Record::Kind::start, &Record::kind)->individual;
      for (int time = 0; time < times; ++time) {
        journal.start(trial, time > 0);
        if (time + 1 < times) journal.record_loss(trial.trial, Blame::shared);
      }
      journal.write();
    }
  }
  world().barrier();
  return folder;
}

/// Of these, each of which was in flight when the job was lost, no two may run at a time; and where they were lost often enough to fail, nothing
/// else.
TW_TEST_ON(ResumeSearch, ThoseThatMayHaveEndedTheJobAreTriedOneByOne, {.least = 2}) {
  for (const int times : {1, 2, 3}) {
    SearchOptions options{.evaluations = 4 * world().size(), .max_attempts = 2};
    options.journal = lost_job(concat("suspects_", times), options, times);
    int with_others = 0;
    const auto watching = [&](const Configuration& c, Trial& trial) {
      if (trial.number() >= world().size()) return bowl(c, trial);
      for (const Stopwatch watch; watch.elapsed().count() < 0.02;) {  // in which others would begin
        for (const LedgerEntry& each : read_ledger(options.journal, plane()).trials) {
          const bool counts = times >= options.max_attempts || each.individual.trial < world().size();
          if (each.individual.trial != trial.number() && each.is_in_flight() && counts) ++with_others;
        }
      }
      return bowl(c, trial);
    };
    Search search(world(), plane(), watching, options);
    const SearchResult result = search.run();
    EXPECT_EQ(with_others, 0) << "lost " << times << " times";
    EXPECT_EQ(result.complete, options.evaluations) << "nobody is blamed for being in flight";
  }
}

/// A worker that was asked to end, as all others are when one has ended by itself, did not end by its trial: there is one left that did.
TW_TEST_ON(ResumeSearch, WhoWasAskedToEndIsNotBlamed, {.least = 2}) {
  SearchOptions options{.evaluations = 4 * world().size(), .max_attempts = 1};
  options.journal = lost_job("asked", options, 1);
  const int guilty = world().size() - 1;
  if (world().rank() != guilty) std::ofstream(options.journal / concat("0000", world().rank(), ".0-of-1.ended"));
  world().barrier();
  Search search(world(), plane(), bowl, options);
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, options.evaluations - 1);
  EXPECT_EQ(result.failed, 1);
  const Ledger ledger = read_ledger(options.journal, plane());
  for (const LedgerEntry& each : ledger.trials) EXPECT_EQ(each.losses, each.message.empty() ? 0 : 1) << each.individual.trial;
  EXPECT_EQ(std::ranges::count(ledger.trials, "its process was lost 1 times", &LedgerEntry::message), 1);
  for (const auto& entry : std::filesystem::directory_iterator(options.journal)) EXPECT_NE(entry.path().extension(), ".ended");
}

/// The job ends between an individual's departure and its arrival: it counts at home again, and everyone goes on from there by doing the same again.
TW_TEST_ON(ResumeSearch, WhoWasOnTheWayToAnotherIslandComesHome, {.least = 2}) {
  const auto folder = fresh_folder("on_the_way");
  // The last island sends nobody on, so that nothing else depends on what is cut.
  const auto islands = static_cast<size_t>(world().size());
  SearchOptions options{.islands = world().size(), .evaluations = 10 * world().size(), .journal = folder, .migration = {.probability = 1}};
  options.migration.topology.resize(islands);
  options.migration.topology.back().resize(islands, 0);
  Search(world(), plane(), bowl, options).run();
  if (world().rank() == 0) {  // what the last worker did from its last adoption on is lost
    const auto path = read_journal(folder).back().path;
    const auto adoptions = [&] { return std::ranges::count(read_journal(folder).back().records, Record::Kind::adoption, &Record::kind); };
    EXPECT_GT(adoptions(), 0);
    for (const auto before = adoptions(); before > 0 && adoptions() == before;) {
      std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    }
    EXPECT_FALSE(left_and_not_arrived(read_journal(folder), {0, 1, 2}).empty());
  }
  world().barrier();
  for (int run = 0; run < 2; ++run) {  // the second one replays the first
    Search search(world(), plane(), bowl, options);
    EXPECT_EQ(search.run().complete, options.evaluations);
    auto active = static_cast<int64_t>(search.population().active());
    mpi::allreduce(world(), {&active, 1, ElementType::int64}, ReduceOp::sum);
    EXPECT_EQ(active, options.evaluations) << "each on one island";
    EXPECT_EQ(read_ledger(folder, plane()).epochs, 1);
    options.evaluations += 5 * world().size();
  }
}

/// A trial that was in flight is repeated by the worker that had begun it, however few evaluations are left, and none is begun in its place.
TEST(ResumeSearch, RepeatsWhatWasUnderWay) {
  const auto folder = fresh_folder("repeats");
  const int64_t evaluations = 8 * world().size();
  // Nobody hears of what others evaluate, so a trial's end can be taken away from under them.
  const SearchOptions options{.islands = world().size(), .evaluations = evaluations, .journal = folder, .migration = {.probability = 0}};
  Search(world(), plane(), bowl, options).run();
  if (world().rank() == 0) {  // as if the last worker had been killed in its last trial
    const auto ends = [&] {
      const std::vector<Record> records = read_journal(folder).back().records;
      return std::count_if(records.begin(), records.end(), [](const Record& record) { return record.kind == Record::Kind::end; });
    };
    const auto path = read_journal(folder).back().path;
    for (const auto before = ends(); ends() == before;) std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  }
  world().barrier();
  Search again(world(), plane(), bowl, options);
  EXPECT_EQ(again.run().complete, evaluations);
  const Ledger ledger = read_ledger(folder, plane());
  EXPECT_EQ(ledger.trials.size(), static_cast<size_t>(evaluations));
  EXPECT_EQ(std::count_if(ledger.trials.begin(), ledger.trials.end(), [](const LedgerEntry& entry) { return entry.attempts == 2; }), 1);
}

TEST(ResumeSearch, RefusesOtherSpacesAndSeeds) {
  const auto folder = fresh_folder("other");
  Search(world(), plane(), bowl, {.evaluations = 8, .journal = folder}).run();
  EXPECT_THROW(Search(world(), {real("x", 0, 1), real("y", 0, 1)}, bowl, {.evaluations = 8, .journal = folder}), FileError);
  EXPECT_THROW(Search(world(), plane(), bowl, {.evaluations = 8, .seed = 1, .journal = folder}), FileError);
}

/// A rule that would stop everything after one good report knows it again, from whichever worker and layout it was.
TEST(ResumeSearch, RulesKnowEarlierReports) {
  const auto folder = fresh_folder("rules");
  const Communicator alone = world().split(world().rank() == 0 ? 0 : 1, 0);
  double reported = 0;
  const auto reporting = [&](const Configuration& /*c*/, Trial& trial) -> Outcome {
    trial.report(1, reported);
    return reported;
  };
  SearchOptions options{.evaluations = 1, .journal = folder, .scheduler = [] { return halving_rule({.grace = 1, .eta = 1000}); }};
  if (world().rank() == 0) Search(alone, plane(), reporting, options).run();
  world().barrier();
  for (reported = 1; reported < 3; ++reported) {  // on as many workers as there are, then on these again
    options.evaluations += world().size();
    const SearchResult result = Search(world(), plane(), reporting, options).run();
    EXPECT_EQ(result.complete, 1);
    EXPECT_EQ(result.pruned, options.evaluations - 1);
  }
}

TEST(ResumeSearch, OneSearchAtATime) {
  const auto folder = fresh_folder("locked");
  const Search first(world(), plane(), bowl, {.evaluations = 8, .journal = folder});
  EXPECT_THROW(Search(world(), plane(), bowl, {.evaluations = 8, .journal = folder}), Error);
}

}  // namespace resume_search_test
}  // namespace tw::search
