// SPDX-License-Identifier: Apache-2.0
// What a configuration of `torchweave search` may not say, and what becomes of what it says.
#include <gtest/gtest.h>

#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>

#include "keys_without_effect.hpp"
#include "search_config.hpp"
#include "trial_meshes.hpp"

namespace search_config_test {

using Settings = std::vector<std::string>;

const Settings usual{"search.evaluations=8", "search.space.x.kind=real", "search.space.x.low=0", "search.space.x.high=1"};

tw::Config config_of(const Settings& settings) {
  tw::Config config;
  for (const std::string& each : usual) config.set(each);
  for (const std::string& each : settings) config.set(each);
  return config;
}

Settings problems_of(const Settings& settings, bool trains = true) {
  tw::Config config = config_of(settings);
  try {
    (void)tw::tool::read_search_config(config, "runs/search", trains);
  } catch (const tw::ConfigError& error) {
    return error.problems();
  }
  return {};
}

struct Refused {
  Settings settings;
  Settings problems;  ///< all that are reported
};

const Refused refused[] = {
    {{"search.evaluations=0"}, {"--set: search.evaluations or seconds must be given, or the search would never end; the nearest valid value is 100"}},
    {{"search.seconds=0"}, {"--set: search.seconds must be positive, got 0; the nearest valid value is 1e-4"}},
    {{"search.propagator=genetik"},
     {"--set: search.propagator is \"genetik\", but must be one of \"automatic\", \"hybrid\", \"quadratic_trust_region\", "
      "\"gaussian_process\", \"tpe\", \"genetic\", \"nsga2\", \"cma_es\", \"swarm\", \"nelder_mead\", \"sobol\", "
      "\"random\"; the nearest is \"genetic\""}},
    {{"search.stopping=asha"},
     {"--set: search.stopping is \"asha\", but must be one of \"none\", \"median\", \"halving\", \"hyperband\", \"promotion\", "
      "\"learning_curve\"; the nearest is \"none\""}},
    {{"search.space.n.kind=int"},
     {"--set: search.space.n.kind is \"int\", but must be one of \"real\", \"integer\", \"ordinal\", \"categorical\"; the nearest is "
      "\"real\"",
      "search.space.n.low is missing", "search.space.n.high is missing"}},
    {{"search.space.x.low=5"}, {"--set: search.space.x.low is 5, which is above high = 1: the limits are reversed; the nearest valid value is 1"}},
    {{"search.space.mode.kind=categorical", "search.space.mode.vals=[\"a\"]"},
     {"search.space.mode.values is missing", "--set: unknown key search.space.mode.vals; did you mean search.space.mode.values?"}},
    {{"search.islands=2", "search.migration.topology.1=[1,0,1]"},
     {"--set: search.migration.topology.1 must be 2 numbers of at least 0, one for each island, with 0 for itself; the nearest valid value is [1, "
      "0]"}},
    {{"search.islands=2", "search.migration.topology.2=[1,0]"},
     {"--set: search.migration.topology.2 is none of the 2 islands, which are numbered from 0; the nearest valid value is migration.topology.0"}},
    {{"search.stopping=halving", "search.most=9"}, {"--set: search.most is now called search.max_steps"}},
    {{"search.population_training.kept=['x']"}, {"--set: search.population_training.kept is now called search.population_training.frozen"}},
    {{"search.figure=loss"}, {"--set: search.figure is now called search.objectives"}},
    {{"search.objectives=['error','seconds']", "search.stopping=median"},
     {"--set: search.objectives must be at most one with stopping, promotion or population_training, which compare a single number; the nearest "
      "valid value is []"}},
    {{"search.island_workers=[2,0]"}, {"--set: search.island_workers must be at least 1, got 0; the nearest valid value is 1"}},
    {{"search.island_workers=[1.5]"}, {"--set: search.island_workers must be whole numbers, got 1.5; the nearest valid value is 1"}},
    {{"search.island_workers=[1,1]", "search.islands=3"},
     {"--set: search.islands is 3, but the length of island_workers is 2; the nearest valid value is 2"}},
    {{"search.stopping=halving", "search.eta=1"}, {"--set: search.eta must be at least 2, got 1; the nearest valid value is 2"}},
    {{"search.stopping=median", "search.population_training.interval=2"},
     {"--set: search.stopping cannot be combined with search.population_training; the nearest valid "
      "value is \"none\""}},
    {{"search.evaluations=0", "search.seconds=5", "search.population_training.quantile=0.75"},
     {"--set: search.population_training.quantile must be at most 0.5, got 0.75; the nearest valid value is 0.5",
      "--set: search.evaluations must be set with population_training: it is the number of members; the nearest valid value is 8"}},
};

TEST(SearchConfig, RefusesByNameWithWhatWouldDo) {
  for (const Refused& each : refused) EXPECT_EQ(problems_of(each.settings), each.problems) << testing::PrintToString(each.settings);
  EXPECT_EQ(problems_of({}), Settings());
}

TEST(SearchConfig, StartsWhereItIsTold) {
  tw::Config config = config_of({"search.space.optimizer.lr.kind=real", "search.space.optimizer.lr.low=1e-4", "search.space.optimizer.lr.high=1",
                                 "search.space.mode.kind=categorical", "search.space.mode.values=['slow','fast']", "search.start.b.x=0.25",
                                 "search.start.b.mode=fast", "search.start.a.optimizer.lr=1e-3"});
  const auto read = tw::tool::read_search_config(config, "runs/search", true);
  const tw::search::Space space = tw::tool::space_of(read.parameters, read.starts);
  const auto start = [&](size_t i, const char* name) { return tw::search::Configuration(space, space.starts().at(i)).text(name); };
  ASSERT_EQ(space.starts().size(), 2U);
  EXPECT_EQ(start(0, "optimizer.lr"), "0.001");
  EXPECT_EQ(start(0, "mode"), "slow");
  EXPECT_EQ(start(1, "x"), "0.25");
  EXPECT_EQ(start(1, "mode"), "fast");
}

TEST(SearchConfig, RefusesStartsOutside) {
  tw::Config config = config_of({"search.start.good.x=1", "search.start.far.x=1.5"});
  const auto read = tw::tool::read_search_config(config, "runs/search", true);
  try {
    (void)tw::tool::space_of(read.parameters, read.starts);
    FAIL() << "nothing is refused";
  } catch (const tw::ConfigError& error) {
    EXPECT_EQ(error.problems(), Settings({"search.start.far: parameter 'x' cannot be '1.5'"}));
  }
  EXPECT_EQ(problems_of({"search.start.a.y=1"}), Settings({"--set: unknown key search.start.a.y; did you mean search.target?"}));
}

TEST(SearchConfig, KnowsConstraintsOfProgramsAlone) {
  EXPECT_EQ(problems_of({"search.constraints=['bytes']"}, /*trains=*/false), Settings());
  EXPECT_EQ(problems_of({"search.constraints=['bytes']"}).size(), 1U);
}

TEST(SearchConfig, MakesOptionsOfNames) {
  const auto read = [](const Settings& settings) {
    tw::Config config = config_of(settings);
    return tw::tool::read_search_config(config, "runs/search", /*trains=*/true);
  };
  EXPECT_EQ(read({}).options.journal, "runs/search");
  EXPECT_FALSE(read({}).options.propagator) << "automatic is the search's own";
  EXPECT_TRUE(read({"search.propagator=tpe"}).options.propagator);
  const auto scheduler = [&](const Settings& settings) { return read(settings).options.scheduler; };
  EXPECT_TRUE(std::holds_alternative<tw::search::RunToEnd>(scheduler({})));
  for (const char* rule : {"median", "halving", "hyperband", "learning_curve"}) {
    EXPECT_NE(std::get<tw::search::StoppingFactory>(scheduler({tw::concat("search.stopping=", rule)}))(), nullptr) << rule;
  }
  EXPECT_EQ(read({"search.objectives=['error','seconds']"}).options.objectives, (std::vector<std::string>{"error", "seconds"}));
  EXPECT_EQ(std::get<tw::search::PromotionOptions>(scheduler({"search.stopping=promotion", "search.eta=3"})).eta, 3);
  EXPECT_EQ(read({"search.island_workers=[2,1,1]"}).options.islands, 3);
  const auto population = read({"search.population_training.frozen=[\"x\"]"});
  EXPECT_EQ(std::get<tw::search::PopulationTrainingOptions>(population.options.scheduler).frozen, std::vector<std::string>{"x"});
  EXPECT_EQ(population.propagator, "sobol") << "members begin before there is anything to breed from";
  EXPECT_EQ(read({"search.islands=3", "search.migration.topology.2=[0,0,0]"}).options.migration.topology.back(), (std::vector<double>{0, 0, 0}));
}

struct RefusedMesh {
  Settings search;
  Settings training;
  Settings problems;  ///< all that are reported
};

Settings ordinal(const std::string& key, const std::string& values) {
  return {tw::concat("search.space.", key, ".kind=ordinal"), tw::concat("search.space.", key, ".values=", values)};
}
Settings operator+(Settings first, const Settings& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const Settings two_ranks{"search.ranks_per_worker=2"};
const Settings four_ranks{"search.ranks_per_worker=4"};
const Settings promotion{"search.stopping=promotion"};
const Settings population{"search.population_training.interval=1"};
const Settings two_stages{"mesh.stage=2"};
const std::string choose = "; choose axes whose product divides the ranks of each worker";
const std::string choose_all = "; choose axes whose product is the ranks of each worker, or mesh.data = 0 for the remaining ranks";
const std::string fix = " may get other stages; set pipeline.profile_cache to a folder, or pipeline.plan to a file";

const RefusedMesh refused_meshes[] = {
    {{}, {}, {}},
    {{}, two_stages, {"mesh.stage = 2: trials need a multiple of 2 ranks, but search.ranks_per_worker is 1" + choose}},
    {two_ranks, two_stages, {}},
    {two_ranks, {"mesh.stage=3"}, {"mesh.stage = 3: trials need a multiple of 3 ranks, but search.ranks_per_worker is 2" + choose}},
    {two_ranks, {"mesh.layer=3"}, {"mesh.layer = 3: trials need a multiple of 3 ranks, but search.ranks_per_worker is 2" + choose}},
    {two_ranks,
     {"mesh.shard=2", "mesh.stage=2"},
     {"mesh.shard = 2 and mesh.stage = 2: trials need a multiple of 4 ranks, but search.ranks_per_worker is 2" + choose}},
    {four_ranks, {"mesh.shard=0", "mesh.stage=2"}, {}},
    {four_ranks, {"mesh.shard=2", "mesh.stage=2"}, {}},
    {four_ranks,
     {"mesh.data=1", "mesh.stage=2"},
     {"mesh.data = 1 and mesh.stage = 2: trials need exactly 2 ranks, but search.ranks_per_worker is 4" + choose_all}},
    {two_ranks, {"mesh.data=1"}, {"mesh.data = 1: trials need exactly 1 rank, but search.ranks_per_worker is 2" + choose_all}},
    {{"search.worker_ranks=[4,2,1,1]"},
     two_stages,
     {"mesh.stage = 2: trials need a multiple of 2 ranks, but search.worker_ranks = [4, 2, 1, 1] has a worker of 1 rank" + choose}},
    // Each mesh that trials may have.
    {two_ranks + ordinal("mesh.stage", "[1,2]"), {}, {}},
    {four_ranks + ordinal("mesh.stage", "[1,3,4]"),
     {},
     {"mesh.stage = 3: trials need a multiple of 3 ranks, but search.ranks_per_worker is 4" + choose}},
    {four_ranks + ordinal("mesh.stage", "[1,2,4]") + ordinal("mesh.shard", "[1,2]"),
     {},
     {"mesh.shard = 2 and mesh.stage = 4: trials need a multiple of 8 ranks, but search.ranks_per_worker is 4" + choose}},
    {four_ranks + ordinal("mesh.stage", "[1,2,4]") + ordinal("mesh.shard", "[1,2]") + Settings{"search.space.mesh.shard.when.mesh.stage=[1,2]"},
     {},
     {}},
    {two_ranks + Settings{"search.space.mesh.stage.kind=integer", "search.space.mesh.stage.low=1", "search.space.mesh.stage.high=3"},
     {},
     {"mesh.stage = 3: trials need a multiple of 3 ranks, but search.ranks_per_worker is 2" + choose}},
    // Trials that resume, and those that copy others.
    {two_ranks + promotion, {}, {}},
    {two_ranks + promotion, two_stages, {"mesh.stage is 2 and search.stopping is \"promotion\", but a trial that resumes" + fix}},
    {two_ranks + promotion + ordinal("mesh.stage", "[1,2]"),
     {},
     {"mesh.stage is 2 and search.stopping is \"promotion\", but a trial that resumes" + fix}},
    {two_ranks + promotion, two_stages + Settings{"pipeline.profile_cache=profiles"}, {}},
    {two_ranks + promotion, two_stages + Settings{"pipeline.plan=plan.json"}, {}},
    {two_ranks + population, two_stages, {"mesh.stage is 2 and search.population_training is set, but a trial that copies another one" + fix}},
    {two_ranks + population, two_stages + Settings{"pipeline.plan=plan.json"}, {}},
    {two_ranks + population, two_stages + Settings{"pipeline.profile_cache=profiles"}, {}},
    {two_ranks + population + ordinal("mesh.shard", "[1,2]"),
     {},
     {"search.space.mesh.shard cannot be combined with search.population_training, whose members copy tensors of equal shapes; set mesh.shard in "
      "[search.train] instead"}},
    {two_ranks + population + ordinal("batch_size", "[8,16]"),
     two_stages + Settings{"pipeline.profile_cache=profiles"},
     {"search.space.batch_size: mesh.stage is 2, and a copy with another batch_size may get other stages; add it to "
      "search.population_training.frozen, or set pipeline.plan to a file"}},
    {two_ranks + population + ordinal("batch_size", "[8,16]") + Settings{"search.population_training.frozen=['batch_size']"},
     two_stages + Settings{"pipeline.profile_cache=profiles"},
     {}},
    {population + Settings{"search.worker_ranks=[4,2]"},
     two_stages + Settings{"pipeline.profile_cache=profiles"},
     {"search.worker_ranks is [4, 2] and mesh.stage is 2, but a copy on another number of ranks may get other stages; use workers of equal sizes, or "
      "set pipeline.plan to a file"}},
};

TEST(SearchConfig, RefusesMeshesThatDoNotFitItsWorkers) {
  for (const RefusedMesh& each : refused_meshes) {
    tw::Config config = config_of(each.search);
    const tw::tool::SearchConfig read = tw::tool::read_search_config(config, "runs/search", /*trains=*/true);
    tw::Config training;
    for (const std::string& setting : each.training) training.set(setting);
    tw::tool::TrainConfig fixed;
    training.bind(fixed);
    EXPECT_EQ(tw::tool::problems_of_meshes(tw::tool::space_of(read.parameters, read.starts), fixed, read.options), each.problems)
        << testing::PrintToString(each.search) << testing::PrintToString(each.training);
  }
}

TEST(SearchConfig, NamesKeysWithoutEffect) {
  tw::Config config = config_of({"search.eta=3", "search.min_trials=2", "search.stopping=median"});
  (void)tw::tool::read_search_config(config, "", /*trains=*/true);
  EXPECT_EQ(tw::tool::keys_without_effect(config),
            (Settings{"--set: search.eta has no effect with search.stopping = \"median\"; it is for \"halving\" or \"hyperband\" or \"promotion\""}));
}

}  // namespace search_config_test
