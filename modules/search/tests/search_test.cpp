// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"
#include "searches.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/hash.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/curve_model.hpp>
#include <tw/mpi/mailbox.hpp>
#include <tw/search/search.hpp>

namespace tw::search {
namespace search_test {

using testing::one_worker;
using testing::plane;
using testing::world;

double sphere(const Configuration& c) { return c.real("x") * c.real("x") + c.real("y") * c.real("y"); }

Outcome objective(const Configuration& c, Trial& /*trial*/) { return sphere(c); }

/// All individuals, whatever their order, as a number.
uint64_t content_of(const Population& population) {
  std::vector<std::string> texts;
  for (const Individual& each : population.all())
    texts.push_back(concat(each.trial, ' ', each.values[0], ' ', each.loss, ' ', static_cast<int>(each.state)));
  std::sort(texts.begin(), texts.end());
  std::string all;
  for (const std::string& each : texts) all += each + '\n';
  return content_hash(all);
}

TEST(Search, EvaluatesExactlySoManyAndTellsAll) {
  for (const int64_t evaluations : {1, 2, 7, 500}) {
    Search search(world(), plane(), objective, {.evaluations = evaluations, .seed = 5});
    const SearchResult result = search.run();
    EXPECT_EQ(result.complete, evaluations);
    EXPECT_EQ(search.population().all().size(), static_cast<size_t>(evaluations));
    EXPECT_TRUE(all_agree(world(), std::to_string(content_of(search.population())))) << "the ranks know different things";
    EXPECT_TRUE(all_agree(world(), concat(result.best.trial, ' ', result.best.loss, ' ', result.seconds, ' ', result.busy)));
    EXPECT_EQ(result.best.loss, search.population().best()->loss);
  }
}

TEST(Search, FindsTheMinimum) {
  Search search(one_worker(), plane(), objective, {.evaluations = 3000, .seed = 2});
  EXPECT_LT(search.run().best.loss, 1e-2);
}

TEST(Search, TriesFirstWhatItsSpaceStartsAt) {
  const Space space{real("x", -5, 5).starting_at("1.25"), real("y", -5, 5).starting_at("-2.5")};
  Search search(world(), space, objective, {.evaluations = 40, .seed = 2});
  search.run();
  EXPECT_EQ(search.population().find(0)->values, (std::vector<double>{1.25, -2.5}));
}

TEST(Search, TriesFirstAllThatItsSpaceStartsAt) {
  Space space = plane();
  std::vector<std::vector<double>> starts;
  for (int i = 0; i < 6; ++i) {
    starts.push_back({0.5 * i + 1, -0.25 * i});
    space.start_at({{"x", concat(0.5 * i + 1)}, {"y", concat(-0.25 * i)}});
  }
  Search search(world(), space, objective, {.evaluations = 40, .seed = 2});
  search.run();
  for (int64_t trial = 0; trial < 6; ++trial) EXPECT_EQ(search.population().find(trial)->values, starts[static_cast<size_t>(trial)]);
  EXPECT_NE(search.population().find(6)->values, starts[0]);
}

/// Falls by a power law from 2 to what the configuration comes to.
Outcome fall(const Configuration& c, Trial& trial) {
  const double end = 0.1 + sphere(c) / 50;
  double loss = 2;
  for (int64_t step = 1; step <= 30; ++step) {
    loss = end + (2 - end) * std::pow(static_cast<double>(step), -0.8);
    if (!trial.report(step, loss)) break;
  }
  return loss;
}

TEST(Search, StopsByTheCurvesOfOthers) {
  const auto run = [](const Communicator& comm) {
    Search search(comm, plane(), fall, {.evaluations = 60, .seed = 1, .scheduler = [] { return curve_rule(parametric_curves()); }});
    const SearchResult result = search.run();
    EXPECT_EQ(result.complete + result.pruned, 60) << result.first_failure;
    return result;
  };
  const SearchResult alone = run(one_worker());
  EXPECT_GT(alone.pruned, 20) << "5 complete trials come first";
  EXPECT_LT(alone.best.loss, 0.4);
  if (world().size() > 1) run(world());  // how many stop depends on when workers learn of each other's reports
}

/// Says nothing, and notes what it is told.
class CountingModel : public CurveModel {
 public:
  explicit CountingModel(std::vector<LearningCurve>& learnt) : learnt_(learnt) {}
  void learn(const LearningCurve& ended) override { learnt_.push_back(ended); }
  double probability_below(double /*loss*/, const LearningCurve& /*curve*/, int64_t /*step*/) override { return 1; }

 private:
  std::vector<LearningCurve>& learnt_;
};

TEST(Search, ModelsOfCurvesLearnAllTrialsAndThoseOfEarlierRuns) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / concat("curve_models_", world().size());
  if (world().rank() == 0) std::filesystem::remove_all(folder);
  world().barrier();
  for (const bool again : {false, true}) {
    std::vector<LearningCurve> learnt;
    Search search(world(), plane(), fall, {.evaluations = 20, .seed = 1, .journal = folder, .scheduler = [&] {
                                             return curve_rule(std::make_unique<CountingModel>(learnt));
                                           }});
    if (!again) search.run();
    EXPECT_EQ(learnt.size(), 20U) << (again ? "continued" : "first");
    for (const LearningCurve& each : learnt) {
      ASSERT_EQ(each.reports.size(), 30U);
      EXPECT_EQ(each.reports.back().value, each.loss);
      EXPECT_EQ(each.values, search.population().find(each.trial)->values);
    }
    world().barrier();
  }
}

TEST(Search, NamesAFactoryThatMakesNothing) {
  const auto refusal_of = [](const SearchOptions& options) {
    return testing::message_of<ContractError>([&] { Search(world(), plane(), objective, options); });
  };
  SearchOptions options{.evaluations = 8};
  options.propagator = [](const WorkerContext& /*seat*/) { return std::unique_ptr<Propagator>(); };
  EXPECT_NE(refusal_of(options).find("propagator returned no propagator for worker"), std::string::npos);
  options.propagator = {};
  options.scheduler = [] { return std::unique_ptr<StoppingRule>(); };
  EXPECT_NE(refusal_of(options).find("returned no stopping rule"), std::string::npos);
}

/// Workers do not know what others have in flight; what they tried themselves they know.
TEST(Search, TriesNothingTwiceUnlessItMay) {
  const Space grid{integer("x", -4, 5), integer("y", -4, 5)};
  const auto different = [&](bool repeats) {
    const auto converging = [](const WorkerContext& seat) { return std::make_unique<Breeder>(seat.space, genetic(8)); };
    Search search(world(), grid, objective, {.evaluations = 50, .seed = 2, .allow_duplicates = repeats, .propagator = converging});
    search.run();
    std::set<std::pair<int, std::vector<double>>> all;
    for (const Individual& each : search.population().all()) all.emplace(each.worker, each.values);
    return all.size();
  };
  EXPECT_EQ(different(false), 50U);
  if (world().size() == 1) {
    EXPECT_LT(different(true), 45U);
  }
}

TW_TEST_ON(Search, IsAFunctionOfItsSeedOnOneWorker, {.most = 1}) {
  const auto run = [](uint64_t seed) {
    Search search(world(), plane(), objective, {.evaluations = 300, .seed = seed});
    search.run();
    return content_of(search.population());
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Search, FailuresAreTrialsToo) {
  Search search(world(), plane(),
                [](const Configuration& c, Trial& trial) -> Outcome {
                  if (trial.number() % 5 == 0) throw std::runtime_error("no luck");
                  if (trial.number() % 5 == 1) return std::nan("");
                  if (trial.number() % 5 == 2) return -INFINITY;
                  return sphere(c);
                },
                {.evaluations = 200, .seed = 1});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete + result.failed, 200);
  EXPECT_GT(result.failed, 0);
  EXPECT_GE(result.best.loss, 0);
  EXPECT_FALSE(result.first_failure.empty());
  for (const Individual& each : search.population().all()) {
    EXPECT_EQ(each.state == TrialState::failed, each.trial % 5 < 3);
    EXPECT_EQ(std::isinf(each.loss), each.trial % 5 < 3);
  }
}

/// Not a megabyte of what a program printed; and no character is cut in two.
TEST(Search, LongMessagesAreShortened) {
  std::string message = "it began so";
  while (message.size() < (1 << 20)) message += "\u00e9";
  Search search(world(), plane(), [&](const Configuration&, Trial&) -> Outcome { throw std::runtime_error(message); },
                {.evaluations = world().size()});
  const std::string told = search.run().first_failure;
  EXPECT_NE(told.find("it began so\u00e9"), std::string::npos) << told;
  EXPECT_LT(told.size(), 5000U);
  const size_t end = told.find(" ... and ");
  ASSERT_NE(end, std::string::npos);
  const size_t kept = end - told.find("it began so");
  EXPECT_EQ(told.substr(end), concat(" ... and ", message.size() - kept, " more bytes"));
  EXPECT_EQ(kept % 2, 1U) << "11 bytes, and two for each further character";
}

TEST(Search, WhatIsInfeasibleIsNotEvaluated) {
  Space space{integer("a", 0, 9), integer("b", 0, 9)};
  space.require("a above b", [](const Configuration& c) { return c.integer("a") > c.integer("b"); });
  int wrong = 0;
  Search search(world(), space,
                [&](const Configuration& c, Trial&) {
                  wrong += c.integer("a") > c.integer("b") ? 0 : 1;
                  return Outcome(c.real("a"));
                },
                // Uniform, in one attempt: 55 of 100 are infeasible.
                {.evaluations = 200, .propagator = [](const WorkerContext& seat) {
                   class Blind : public Propagator {
                    public:
                     explicit Blind(const Space& of) : space_(of) {}
                     Proposal ask(const Population& population, CounterRng& random) override {
                       Offspring offspring{space_, population, random};
                       uniform_child()(offspring);
                       return {offspring.child, {}};
                     }

                    private:
                     const Space& space_;
                   };
                   return std::make_unique<Blind>(seat.space);
                 }});
  const SearchResult result = search.run();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(result.complete + result.infeasible, 200);
  EXPECT_NEAR(static_cast<double>(result.infeasible), 110, 45);  // binomial, deviation 7
}

TEST(Search, EndsAtItsTarget) {
  Search search(world(), plane(), objective, {.evaluations = 100000, .target = 0.5, .seed = 3});
  const SearchResult result = search.run();
  EXPECT_LE(result.best.loss, 0.5);
  EXPECT_LT(result.complete, world().size() == 1 ? 20000 : 100000) << "others go on until the message reaches them";
  EXPECT_TRUE(all_agree(world(), std::to_string(content_of(search.population()))));
}

TEST(Search, EndsInTime) {
  Search search(world(), plane(), objective, {.seconds = 0.2});
  const SearchResult result = search.run();
  EXPECT_GE(result.seconds, 0.2);
  EXPECT_GT(result.complete, 0);
}

TEST(Search, StopsTrialsEarly) {
  std::map<int64_t, int64_t> steps;
  Search search(world(), plane(),
                [&](const Configuration& c, Trial& trial) -> Outcome {
                  for (int64_t step = 1; step <= 16; ++step) {
                    steps[trial.number()] = step;
                    if (!trial.report(step, sphere(c) + 1.0 / static_cast<double>(step))) return 1e9;
                  }
                  return sphere(c);
                },
                {.evaluations = 120,  // by chance, so that late ones are no better than early ones
                 .propagator = [](const WorkerContext& seat) { return std::make_unique<Breeder>(seat.space, uniform_child()); },
                 .scheduler = [] { return halving_rule({.grace = 1, .eta = 4, .max_steps = 16}); }});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete + result.pruned, 120);
  if (world().size() == 1) {
    EXPECT_GT(result.pruned, 60);
  }
  for (const Individual& each : search.population().all()) {
    if (each.state != TrialState::pruned) continue;
    EXPECT_LT(each.loss, 1e8) << "its last report counts";
    if (steps.contains(each.trial)) {
      EXPECT_LT(steps[each.trial], 16);
    }
  }
}

TEST(Search, ATrialThatIsStoppedStaysStopped) {
  Search search(world(), plane(),
                [&](const Configuration& /*c*/, Trial& trial) -> Outcome {
                  EXPECT_FALSE(trial.report(1, NAN));
                  EXPECT_FALSE(trial.report(2, 1)) << "it goes on all the same";
                  return 1;
                },
                {.evaluations = 8});
  EXPECT_EQ(search.run().failed, 8) << "the value that stopped it counts, and is no number";
}

TEST(Search, StepsAscend) {
  Search search(world(), plane(),
                [&](const Configuration& /*c*/, Trial& trial) -> Outcome {
                  trial.report(2, 1);
                  trial.report(2, 1);
                  return 1;
                },
                {.evaluations = 4});
  EXPECT_EQ(search.run().failed, 4);
}

/// What is wrong with the search itself is no failure of the trial in which it comes to light.
TEST(Search, EndsWhereItsRuleIsBroken) {
  class Broken : public StoppingRule {
   public:
    void observe(const Report& /*report*/) override { throw std::logic_error("broken"); }
    bool should_continue(const Report& /*report*/) const override { return true; }
  };
  const auto search = [] {
    Search(world(), plane(), [](const Configuration& c, Trial& trial) -> Outcome { return trial.report(1, 1) ? sphere(c) : 1; },
           {.evaluations = 8, .scheduler = [] { return std::make_unique<Broken>(); }})
        .run();
  };
  EXPECT_ANY_THROW(search());  // on other ranks the news of it, which may come while they still wait for each other before it begins
  world().barrier();
}

/// What an objective draws is not what its configuration was bred from.
TEST(Search, TrialsHaveRandomNumbersOfTheirOwn) {
  std::vector<uint32_t> bred;
  class Drawing : public Propagator {
   public:
    Drawing(const Space& space, std::vector<uint32_t>& drawn) : breeder_(space), drawn_(drawn) {}
    Proposal ask(const Population& population, CounterRng& random) override {
      CounterRng same = random;
      drawn_.push_back(same());
      return breeder_.ask(population, random);
    }

   private:
    Breeder breeder_;
    std::vector<uint32_t>& drawn_;
  };
  Search search(world(), plane(),
                [&](const Configuration& c, Trial& trial) {
                  EXPECT_NE(trial.rng()(), bred.back());  // equal by chance: 1 in 2^32
                  return Outcome(sphere(c));
                },
                {.evaluations = 8, .propagator = [&](const WorkerContext& seat) { return std::make_unique<Drawing>(seat.space, bred); }});
  EXPECT_EQ(search.run().complete, 8);
}

/// On every island the same is active; a copy replaces, and a move leaves: their number on all islands is that of the evaluations.
TW_TEST_ON(Search, IndividualsMoveAmongIslands, {.least = 2}) {
  for (const bool copies : {false, true}) {
    SearchOptions options{.islands = 2, .evaluations = 400, .migration = {.probability = 0.3, .copies = copies}};
    Search search(world(), plane(), objective, options);
    search.run();
    const int island = world().rank() < (world().size() + 1) / 2 ? 0 : 1;
    std::vector<int64_t> active;
    bool foreign = false;
    for (size_t i = 0; i < search.population().active(); ++i) {
      active.push_back(search.population().active_at(i).trial);
      foreign = foreign || search.population().active_at(i).island != island;
    }
    std::sort(active.begin(), active.end());
    // Where one island evaluates nearly everything before the other begins, it gets no immigrants.
    const std::vector<std::string> foreigners = allgather_strings(world(), foreign ? "some" : "");
    EXPECT_NE(std::count(foreigners.begin(), foreigners.end(), "some"), 0);
    std::string text;
    for (const int64_t trial : active) text += concat(trial, ' ');
    const Communicator mine = world().split(island, 0);
    EXPECT_TRUE(all_agree(mine, text)) << "workers of an island disagree on who is there";
    const std::vector<std::string> all = allgather_strings(world(), concat(island, ' ', active.size()));
    if (copies) continue;
    EXPECT_EQ(std::stoll(all.front().substr(2)) + std::stoll(all.back().substr(2)), 400);
  }
}

/// An evaluation of the first worker takes as long as 20 of the others, or until these do nothing for a while because they wait for an answer.
TW_TEST_ON(Search, SlowWorkersGiveTheirShareAway, {.least = 2}) {
  int64_t here = 0;
  mpi::Mailbox begun(world());
  Search search(world(), plane(),
                [&](const Configuration& c, Trial&) {
                  ++here;
                  if (world().rank() > 0) begun.send(std::vector<std::byte>(1), Rank(0));
                  for (int i = 0; world().rank() == 0 && i < 20 && begun.take_within(std::chrono::milliseconds(100)); ++i) {
                  }
                  return Outcome(sphere(c));
                },
                {.evaluations = 100});
  const SearchResult result = search.run();
  EXPECT_EQ(result.complete, 100);
  if (world().rank() == 0) {
    EXPECT_LT(here, 100 / world().size() / 2 + 3);
  }
}

/// The first worker waits in its first trial until the others have done the rest, which they can only if it gives its share away meanwhile.
TW_TEST_ON(Search, WhoWaitsForSomethingElseAnswersMeanwhile, {.least = 2}) {
  const int64_t evaluations = 20;
  int64_t here = 0;
  int64_t of_others = 0;
  mpi::Mailbox begun(world());
  const Stopwatch watch;
  Search search(world(), plane(),
                [&](const Configuration& c, Trial& trial) {
                  ++here;
                  if (world().rank() > 0) begun.send(std::vector<std::byte>(1), Rank(0));
                  while (world().rank() == 0 && of_others < evaluations - 2 && watch.elapsed() < Seconds(60)) {
                    trial.process_messages();
                    if (begun.take()) ++of_others;
                  }
                  return Outcome(sphere(c));
                },
                {.evaluations = evaluations});
  EXPECT_EQ(search.run().complete, evaluations);
  if (world().rank() == 0) {
    EXPECT_LE(here, 2) << "it keeps the last one of its share";
  }
}

TEST(Search, RefusesWhatIsWrong) {
  EXPECT_THROW(Search(world(), plane(), objective, {}), ContractError);
  EXPECT_THROW(Search(world(), plane(), nullptr, {.evaluations = 1}), ContractError);
  EXPECT_THROW(Search(world(), plane(), objective, {.ranks_per_worker = world().size() + 1, .evaluations = 1}), ContractError);
}

}  // namespace search_test
}  // namespace tw::search
