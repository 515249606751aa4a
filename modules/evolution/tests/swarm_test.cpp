// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tw/base/error.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/swarm.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace swarm_test {

const Space plane{real("x", 0, 1), real("y", 0, 1)};  // values are positions
const Population nobody;

Proposal asked(Swarm& swarm, uint64_t trial) {
  CounterRng random(3, trial);
  return swarm.ask(nobody, random);
}

TEST(Swarm, ConstrictionIsTheFormulas) {
  // phi = 4.1: 2 / (2.1 + sqrt(0.41)) = 2 / (2.1 + 0.6403124237432849)
  EXPECT_NEAR(constriction(4.1), 0.7298437881283576, 1e-15);
  EXPECT_NEAR(constricted_swarm().inertia, 0.7298437881283576, 1e-15);
  EXPECT_NEAR(constricted_swarm().cognitive, 2.05 * 0.7298437881283576, 1e-15);
  EXPECT_NEAR(constricted_swarm(2, 3).social, 3 * 2 / (3 + std::sqrt(5.0)), 1e-15);
  EXPECT_EQ(canonical_swarm().velocity_limit, 1);
  EXPECT_THROW(constriction(4), ContractError);
}

TEST(Swarm, AStepIsTheFormulas) {
  const std::vector<double> own{0.45, 0.55};
  const std::vector<double> social{0.6, 0.42};
  Particle particle{.position = {0.5, 0.5}, .velocity = {0.02, -0.03}};
  CounterRng random(1, 2);
  CounterRng same(1, 2);
  fly(particle, own, social, {}, random);
  for (size_t d = 0; d < 2; ++d) {
    const double r = uniform(same);
    const double s = uniform(same);
    const double velocity = 0.729 * (d == 0 ? 0.02 : -0.03) + 1.49445 * r * (own[d] - 0.5) + 1.49445 * s * (social[d] - 0.5);
    EXPECT_NEAR(particle.velocity[d], velocity, 1e-15);
    EXPECT_NEAR(particle.position[d], 0.5 + velocity, 1e-15);
  }
}

TEST(Swarm, VelocitiesAreClampedAndFacesAbsorb) {
  for (uint64_t trial = 0; trial < 200; ++trial) {
    CounterRng random(1, trial);
    Particle particle{.position = {0.5, 0.98}, .velocity = {0.9, 0.2}};
    fly(particle, {0.5, 1}, {0.5, 1}, {.velocity_limit = 0.1}, random);
    ASSERT_EQ(particle.velocity[0], 0.1);
    ASSERT_EQ(particle.position[0], 0.6);
    ASSERT_EQ(particle.velocity[1], 0);
    ASSERT_EQ(particle.position[1], 1);
  }
}

TEST(Swarm, EachDimensionHasItsOwnRandomNumbers) {
  // With one random number for all dimensions, a particle moves only in the plane of its attractors, and velocities in two dimensions are
  // proportional here. With one number per dimension they are independent, and the correlation of 4,096 has deviation 1/64.
  double product = 0;
  double square = 0;
  for (uint64_t trial = 0; trial < 4096; ++trial) {
    CounterRng random(5, trial);
    Particle particle{.position = {0.2, 0.2}, .velocity = {0, 0}};
    fly(particle, {0.3, 0.3}, {0.4, 0.4}, {}, random);
    const double mean = 1.49445 * (0.5 * 0.1 + 0.5 * 0.2);
    product += (particle.velocity[0] - mean) * (particle.velocity[1] - mean);
    square += (particle.velocity[0] - mean) * (particle.velocity[0] - mean);
  }
  EXPECT_LT(std::abs(product / square), 6.0 / 64);
  // Variance of c1 r 0.1 + c2 s 0.2: c^2 (0.1^2 + 0.2^2) / 12; with one number for both attractions c^2 0.3^2 / 12. Its relative deviation is below 1
  // / 64.
  const double variance = 1.49445 * 1.49445 * 0.05 / 12;
  EXPECT_NEAR(square / 4096, variance, 6.0 / 64 * variance);
}

TEST(Swarm, TheParticleThatWaitedLongestMoves) {
  Swarm swarm(plane, {.particles = 3});
  std::vector<Proposal> first;
  for (uint64_t i = 0; i < 3; ++i) first.push_back(asked(swarm, i));
  const Proposal filler = asked(swarm, 3);
  EXPECT_EQ(filler.tag.index, -1);
  EXPECT_TRUE(plane.contains(filler.values));
  for (const size_t back : {2U, 0U, 1U}) swarm.tell(evaluated(first[back], 1.0));
  for (uint64_t i = 0; i < 3; ++i) {
    const Proposal next = asked(swarm, 4 + i);
    EXPECT_EQ(next.tag.index, (std::vector<int32_t>{2, 0, 1})[i]);
    EXPECT_EQ(next.tag.generation, 1);
  }
}

TEST(Swarm, ResultsOfOthersAttractButAreNotAParticlesOwn) {
  // A lone particle that received a better place from another worker moves on average half of c2 towards it; its own best attracts it nowhere else.
  double mean = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Swarm swarm(plane, {.inertia = 0, .cognitive = 0, .social = 1, .particles = 1});
    CounterRng random(seed);
    const Proposal first = swarm.ask(nobody, random);
    swarm.tell(evaluated(first, 2.0));
    Proposal other = first;
    other.values = {0.5, 0.5};
    swarm.tell(evaluated(other, 1.0));  // the same tag, from another worker
    const Proposal next = swarm.ask(nobody, random);
    mean += (next.values[0] - first.values[0]) / (0.5 - first.values[0]) / 400;
  }
  EXPECT_NEAR(mean, 0.5, 6 * std::sqrt(1.0 / 12 / 400));
}

TEST(Swarm, OnlyItsOwnResultEndsAMove) {
  Swarm swarm(plane, {.particles = 1});
  const Proposal first = asked(swarm, 0);
  Proposal other = first;
  other.values[0] /= 2;
  swarm.tell(evaluated(other, 1.0));
  EXPECT_EQ(asked(swarm, 1).tag.index, -1);
  swarm.tell(evaluated(first, 2.0));
  EXPECT_EQ(asked(swarm, 2).tag.index, 0);
}

TEST(Swarm, FailuresNeitherStallNorAttract) {
  Swarm swarm(plane, {.particles = 2});
  std::vector<double> seen;
  for (uint64_t i = 0; i < 100; ++i) {
    const Proposal proposal = asked(swarm, i);
    ASSERT_GE(proposal.tag.index, 0);
    seen.push_back(proposal.values[0]);
    swarm.tell(failed(proposal));
  }
  std::ranges::sort(seen);
  EXPECT_EQ(std::ranges::adjacent_find(seen), seen.end()) << "without a best place particles begin at new ones";
  // Without inertia, a particle whose own best is the global best stays there, whatever failed.
  Swarm still(plane, {.inertia = 0, .particles = 1});
  const Proposal good = asked(still, 0);
  still.tell(evaluated(good, 1.0));
  for (uint64_t i = 1; i < 50; ++i) {
    const Proposal proposal = asked(still, i);
    EXPECT_EQ(proposal.values, good.values);
    still.tell(failed(proposal));
  }
}

TEST(Swarm, EveryKindConvergesOnASphere) {
  const TestFunction sphere = test_function("sphere", 30);
  const Space space = sphere.space();
  for (const SwarmOptions& kind : {SwarmOptions{}, clamped_swarm(), constricted_swarm(), canonical_swarm()}) {
    SwarmOptions options = kind;
    options.particles = 30;
    Swarm swarm(space, options);
    EXPECT_LT(std::ranges::min(losses_of(swarm, sphere, 30000)), 1e-10);
  }
}

TEST(Swarm, SixteenInFlightConvergeToo) {
  const TestFunction sphere = test_function("sphere", 10);
  const Space space = sphere.space();
  Swarm swarm(space, {.particles = 24});
  EXPECT_LT(std::ranges::min(losses_of(swarm, sphere, 10000, 16)), 1e-10);
}

TEST(Swarm, TheSameIsProposedAgain) {
  const TestFunction function = test_function("rastrigin", 5);
  const Space space = function.space();
  const auto run = [&] {
    Swarm swarm(space);
    return losses_of(swarm, function, 500, 3);
  };
  EXPECT_EQ(run(), run());
}

TEST(Swarm, RefusesWrongOptions) {
  for (const SwarmOptions& wrong :
       std::vector<SwarmOptions>{{.inertia = 1}, {.cognitive = -1}, {.social = NAN}, {.velocity_limit = 0}, {.particles = 0}}) {
    EXPECT_THROW(Swarm(plane, wrong), ContractError);
  }
}

}  // namespace swarm_test
}  // namespace tw::search
