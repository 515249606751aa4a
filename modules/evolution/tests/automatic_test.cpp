// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tw/base/error.hpp>
#include <tw/evolution/automatic.hpp>
#include <tw/evolution/nsga2.hpp>

namespace tw::search {
namespace automatic_test {

Space reals(int n) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < n; ++i) parameters.push_back(real("x" + std::to_string(i), -1, 1));
  return Space(parameters);
}

Space mixed(int choices, bool conditional = false) {
  std::vector<Parameter> parameters{real("lr", 1e-4, 1, log_scale), integer("layers", 1, 8)};
  for (int i = 0; i < choices; ++i) parameters.push_back(categorical("c" + std::to_string(i), {"a", "b"}));
  if (conditional) parameters.push_back(real("momentum", 0, 1).when("c0", {"a"}));
  return Space(parameters);
}

TEST(Automatic, BudgetsDecideOnNumbers) {
  EXPECT_EQ(choose(reals(10), 29).method, Method::sobol);
  EXPECT_EQ(choose(reals(10), 30).method, Method::hybrid);
  EXPECT_EQ(choose(reals(65), 194).method, Method::sobol);
  for (const int n : {1, 2, 5, 10, 20, 30, 200}) EXPECT_EQ(choose(reals(n), 38912).method, Method::hybrid);
  EXPECT_EQ(choose(reals(201), 38912).method, Method::genetic);
}

TEST(Automatic, BudgetsDecideOnChoicesAndConditions) {
  for (const Space& space : {mixed(3), mixed(1, true), Space{integer("few", 1, 7)}}) {
    const auto dimensions = static_cast<int64_t>(space.dimensions());
    EXPECT_EQ(choose(space, 3 * dimensions - 1).method, Method::sobol);
    EXPECT_EQ(choose(space, 3 * dimensions).method, Method::gaussian_process);
    EXPECT_EQ(choose(space, 300).method, Method::gaussian_process);
    EXPECT_EQ(choose(space, 2000).method, Method::tpe);
    EXPECT_EQ(choose(space, 2001).method, Method::genetic);
  }
  for (const Space& space : {mixed(2), mixed(1), Space{ordinal("batch", {1, 2, 4, 8, 16, 32, 64, 128})}}) {
    EXPECT_EQ(choose(space, 100).method, Method::hybrid);
  }
}

TEST(Automatic, SaysWhy) {
  EXPECT_EQ(choose(reals(2), 5).reason, "with 5 evaluations in 2 dimensions there is little to learn from: the space is covered evenly");
  EXPECT_EQ(choose(mixed(3), 1000).reason, "only 2 of 5 parameters are on a scale: densities of good and of bad configurations are compared");
  EXPECT_EQ(choose(mixed(3), 10000).reason, "only 2 of 5 parameters are on a scale: configurations are recombined");
  EXPECT_EQ(choose(mixed(1, true), 10000).reason, "1 of 4 parameters have conditions: configurations are recombined");
  EXPECT_EQ(choose(reals(300), 10000).reason, "covariances cannot be learnt in 300 dimensions: configurations are recombined");
  EXPECT_EQ(choose(reals(2), 100).reason,
            "2 of 2 parameters are on a scale: quadratic models of the loss while evaluations are few, and then CMA-ES");
  EXPECT_STREQ(name_of(choose(reals(2), 100).method), "hybrid");
}

/// The proposals show that the method made is the method named.
TEST(Automatic, MakesWhatItNames) {
  const auto proposals = [](const Space& space, int64_t evaluations, int worker = 0, int workers = 1) {
    const auto propagator = automatic(space, evaluations, 3, worker, workers);
    std::vector<Proposal> all;
    for (uint64_t trial = 0; trial < 200; ++trial) {
      CounterRng random(1, trial);
      all.push_back(propagator->ask({}, random));
      EXPECT_TRUE(space.contains(all.back().values));
    }
    return all;
  };
  const auto of_region = [](const std::vector<Proposal>& all) {
    return std::ranges::count_if(all, [](const Proposal& p) { return p.tag.run < -1; });
  };
  // 64 points of an even cover: one in each 64th. Workers have parts of it.
  const std::vector<Proposal> cover = proposals(reals(2), 5);
  std::set<int> parts;
  for (size_t i = 0; i < 64; ++i) parts.insert(static_cast<int>(32 * (cover[i].values[0] + 1)));
  EXPECT_EQ(parts.size(), 64U);
  EXPECT_EQ(proposals(reals(2), 5, 1, 2)[3].values, cover[7].values);
  EXPECT_EQ(proposals(reals(65), 65, 1, 2)[3].values, proposals(reals(65), 65)[7].values);
  EXPECT_EQ(of_region(proposals(mixed(3), 1000)), 0);
  // 95 % of 200 belong to the region, deviation 3.
  for (const int64_t evaluations : {0, 1000}) EXPECT_NEAR(static_cast<double>(of_region(proposals(reals(2), evaluations))), 190, 12);
}

TEST(Automatic, SeveralObjectivesHaveNsga2) {
  for (const int64_t evaluations : {1, 100, 100000}) EXPECT_EQ(choose(reals(2), evaluations, 2).method, Method::nsga2);
  EXPECT_EQ(choose(mixed(3), 100, 3).reason, "there are 3 objectives: fronts of trials are recombined");
  const Space space = reals(2);
  const auto propagator = automatic(space, 100, 1, 0, 1, 2);
  EXPECT_NE(dynamic_cast<Nsga2*>(propagator.get()), nullptr);
  EXPECT_THROW(choose(reals(2), 100, 0), ContractError);
}

TEST(Automatic, RefusesNoBudget) { EXPECT_THROW(choose(reals(2), 0), ContractError); }

}  // namespace automatic_test
}  // namespace tw::search
