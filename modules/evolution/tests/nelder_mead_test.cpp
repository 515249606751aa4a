// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/base/error.hpp>
#include <tw/evolution/draws.hpp>
#include <tw/evolution/nelder_mead.hpp>

#include "minimize.hpp"

namespace tw::search {
namespace nelder_mead_test {

using Position = std::vector<double>;
using Loss = std::function<double(const Position&)>;

const Population nobody;

/// The positions that a simplex with one proposal in flight at a time evaluates.
std::vector<Position> positions_of(NelderMead& simplex, const Space& space, const Loss& loss, int evaluations) {
  std::vector<Position> positions;
  for (int i = 0; i < evaluations; ++i) {
    CounterRng random(1, static_cast<uint64_t>(i));
    const Proposal proposal = simplex.ask(nobody, random);
    positions.push_back(space.encode(proposal.values));
    simplex.tell(evaluated(proposal, loss(proposal.values)));
  }
  return positions;
}

/// Nelder & Mead 1965, written from their flow chart, within the unit cube.
std::vector<Position> reference(std::vector<Position> simplex, const Loss& loss, size_t evaluations, const NelderMeadOptions& c) {
  std::vector<Position> seen;
  const auto f = [&](const Position& x) {
    seen.push_back(x);
    return loss(x);
  };
  const size_t n = simplex.size() - 1;
  const auto between = [&](const Position& a, const Position& b, double share) {
    Position x(n);
    for (size_t d = 0; d < n; ++d) x[d] = std::clamp((1 - share) * a[d] + share * b[d], 0.0, 1.0);
    return x;
  };
  std::vector<double> y;
  for (const Position& x : simplex) y.push_back(f(x));
  while (seen.size() < evaluations) {
    std::vector<size_t> order(n + 1);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return y[i]; });
    const size_t low = order[0];
    const size_t next = order[n - 1];
    const size_t high = order[n];
    Position mean(n, 0);
    for (size_t i = 0; i <= n; ++i) {
      for (size_t d = 0; d < n && i != high; ++d) mean[d] += simplex[i][d] / static_cast<double>(n);
    }
    const Position r = between(mean, simplex[high], -c.reflection);
    const double yr = f(r);
    if (yr < y[low]) {
      const Position e = between(mean, r, c.expansion);
      const double ye = f(e);
      simplex[high] = ye < y[low] ? e : r;
      y[high] = ye < y[low] ? ye : yr;
      continue;
    }
    if (yr < y[high]) {
      const bool contract = yr >= y[next];
      simplex[high] = r;
      y[high] = yr;
      if (!contract) continue;
    }
    const Position inner = between(mean, simplex[high], c.contraction);
    const double yi = f(inner);
    if (yi < y[high]) {
      simplex[high] = inner;
      y[high] = yi;
      continue;
    }
    for (size_t i = 0; i <= n; ++i) {
      if (i == low) continue;
      simplex[i] = between(simplex[low], simplex[i], c.shrinkage);
      y[i] = f(simplex[i]);
    }
  }
  return seen;
}

void expect_like_reference(const TestFunction& function, NelderMeadOptions options, const Position& start, size_t evaluations) {
  const Space space = function.space();
  const double side = options.side_in(start.size());
  std::vector<Position> first{start};
  for (size_t d = 0; d < start.size(); ++d) {
    first.push_back(start);
    first.back()[d] += start[d] + side <= 1 ? side : -side;
  }
  options.start = space.decode(start);
  NelderMead simplex(space, options, 1);
  const Loss loss = [&](const Position& values) { return function.value(values); };
  const auto positions = positions_of(simplex, space, loss, static_cast<int>(evaluations));
  const auto expected = reference(first, [&](const Position& x) { return loss(space.decode(x)); }, evaluations, options);
  EXPECT_EQ(simplex.restarts(), 0);
  for (size_t i = 0; i < evaluations; ++i) {
    // Means are summed in a different order: 2^-53, magnified by the steps.
    for (size_t d = 0; d < start.size(); ++d) ASSERT_NEAR(positions[i][d], expected[i][d], 1e-9) << "evaluation " << i;
  }
}

double best_of(const std::vector<double>& losses) { return *std::ranges::min_element(losses); }

TEST(NelderMead, OneAtATimeItIsThatOf1965StepByStep) {
  expect_like_reference(test_function("rosenbrock", 2), {}, {0.1, 0.7}, 120);
  expect_like_reference(test_function("rosenbrock", 2), {}, {0.9, 0.95}, 120);
  expect_like_reference(test_function("rastrigin", 3), {.side = 0.25}, {0.2, 0.4, 0.6}, 120);  // this case also shrinks
  expect_like_reference(test_function("rosenbrock", 4), adaptive_nelder_mead(4), {0.1, 0.3, 0.5, 0.7}, 200);
}

TEST(NelderMead, AdaptiveCoefficientsAreGaoAndHans) {
  const NelderMeadOptions two = adaptive_nelder_mead(2);
  EXPECT_EQ((std::vector<double>{two.reflection, two.expansion, two.contraction, two.shrinkage}), (std::vector<double>{1, 2, 0.5, 0.5}));
  const NelderMeadOptions ten = adaptive_nelder_mead(10);
  EXPECT_NEAR(ten.expansion, 1.2, 1e-15);
  EXPECT_NEAR(ten.contraction, 0.7, 1e-15);
  EXPECT_NEAR(ten.shrinkage, 0.9, 1e-15);
}

TEST(NelderMead, Converges) {
  struct Case {
    const char* name;
    size_t dimensions;
    size_t in_flight;
    int64_t evaluations;
  };
  for (const Case& c : {Case{"rosenbrock", 2, 1, 400}, Case{"sphere", 5, 1, 1000}, Case{"rosenbrock", 2, 4, 1600}, Case{"sphere", 5, 4, 4000},
                        Case{"sphere", 8, 4, 8000}, Case{"sphere", 8, 16, 16000}}) {
    const TestFunction function = test_function(c.name, c.dimensions);
    const Space space = function.space();
    for (uint64_t seed = 0; seed < 10; ++seed) {
      NelderMead simplex(space, {}, seed);
      EXPECT_LT(best_of(losses_of(simplex, function, c.evaluations, c.in_flight)), 1e-8)
          << c.name << ' ' << c.dimensions << ", " << c.in_flight << " in flight, seed " << seed;
    }
  }
}

TEST(NelderMead, FourAtATimeTakeLessTimeThanOne) {
  // Time: evaluations to 1e-8, divided by the number in flight.
  const TestFunction function = test_function("sphere", 8);
  const Space space = function.space();
  const auto time = [&](size_t in_flight) {
    double sum = 0;
    for (uint64_t seed = 0; seed < 10; ++seed) {
      NelderMead simplex(space, {}, seed);
      const auto losses = losses_of(simplex, function, 8000, in_flight);
      sum += static_cast<double>(std::ranges::find_if(losses, [](double loss) { return loss < 1e-8; }) - losses.begin());
    }
    return sum / 10 / static_cast<double>(in_flight);
  };
  const double one = time(1);
  const double four = time(4);
  EXPECT_LT(four, 0.9 * one);
}

TEST(NelderMead, NearlyAllProposalsAreMovesOfTheSimplex) {
  const TestFunction function = test_function("rosenbrock", 8);
  const Space space = function.space();
  for (const size_t in_flight : {1U, 4U}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      NelderMead simplex(space, {}, seed);
      std::deque<Individual> waiting;
      int moves = 0;
      for (uint64_t i = 0; i < 500; ++i) {
        CounterRng random(seed, i);
        const Proposal proposal = simplex.ask(nobody, random);
        moves += proposal.tag.index >= 0 ? 1 : 0;
        waiting.push_back(evaluated(proposal, function.value(proposal.values)));
        if (waiting.size() < in_flight) continue;
        simplex.tell(waiting.front());
        waiting.pop_front();
      }
      EXPECT_GE(moves, in_flight == 1 ? 500 : 475) << "of 500, seed " << seed;
    }
  }
}

TEST(NelderMead, RestartsFromPlateausAndSmallSimplexes) {
  for (const char* name : {"step", "sphere"}) {
    const TestFunction function = test_function(name, 5);
    const Space space = function.space();
    NelderMead simplex(space, {.collapsed = 1e-6}, 1);
    losses_of(simplex, function, 5000);
    EXPECT_GE(simplex.restarts(), 5) << name;
  }
}

TEST(NelderMead, ARestartBeginsAroundTheBestOfAllAndTheNextAnywhere) {
  const TestFunction function = test_function("sphere", 2);
  const Space space = function.space();
  NelderMead simplex(space, {}, 1);
  Individual best;
  std::vector<Position> first;  // first position of each run
  for (uint64_t i = 0; first.size() < 3; ++i) {
    CounterRng random(1, i);
    const auto runs = static_cast<size_t>(simplex.restarts()) + 1;
    const Proposal proposal = simplex.ask(nobody, random);
    if (first.size() < runs) {
      first.push_back(space.encode(proposal.values));
      if (runs == 2) {
        EXPECT_EQ(proposal.values, best.values);
      }
    }
    const Individual individual = evaluated(proposal, function.value(proposal.values));
    if (individual.loss < best.loss) best = individual;
    simplex.tell(individual);
  }
  EXPECT_GT(std::hypot(first[2][0] - 0.5, first[2][1] - 0.5), 0.01);  // the minimum is in the middle
}

TEST(NelderMead, FailuresNeitherBreakNorStall) {
  const TestFunction function = test_function("sphere", 3);
  const Space space = function.space();
  NelderMead simplex(space, {.start = space.decode({0.9, 0.9, 0.9})}, 1);
  double best = 1e300;
  for (uint64_t i = 0; i < 3000; ++i) {
    CounterRng random(1, i);
    const Proposal proposal = simplex.ask(nobody, random);
    const bool fails = proposal.values[0] + proposal.values[1] < 0 || i % 7 == 0;  // half of the space, and occasionally anywhere
    if (!fails) best = std::min(best, function.value(proposal.values));
    simplex.tell(fails ? failed(proposal) : evaluated(proposal, function.value(proposal.values)));
  }
  EXPECT_LT(best, 1e-4);
  NelderMead hopeless(space, {}, 1);
  for (uint64_t i = 0; i < 100; ++i) {
    CounterRng random(1, i);
    hopeless.tell(failed(hopeless.ask(nobody, random)));
  }
  EXPECT_EQ(hopeless.restarts(), 25);  // four vertices each
}

TEST(NelderMead, ABetterIndividualOfOthersBecomesAVertex) {
  const TestFunction function = test_function("sphere", 2);
  const Space space = function.space();
  NelderMead simplex(space, {.start = space.decode({0.1, 0.1})}, 1);
  const auto step = [&](uint64_t trial) {
    CounterRng random(1, trial);
    const Proposal proposal = simplex.ask(nobody, random);
    simplex.tell(evaluated(proposal, function.value(proposal.values)));
    return space.encode(proposal.values);
  };
  for (uint64_t i = 0; i < 3; ++i) step(i);
  simplex.tell(evaluated({.values = space.decode({0.2, 0.2})}, 1000.0));  // not better
  simplex.tell(evaluated({.values = space.decode({0.6, 0.6})}, function.value(space.decode({0.6, 0.6}))));
  // Vertices: (0.1, 0.1), the worst, (0.35, 0.1) and (0.1, 0.35). The worst is replaced; of the two equally good others, the later one is reflected.
  const Position next = step(3);
  EXPECT_NEAR(next[0], 0.6 + 0.35 - 0.1, 1e-12);
  EXPECT_NEAR(next[1], 0.6 + 0.1 - 0.35, 1e-12);
}

TEST(NelderMead, WhileAMoveIsUnderWayTheSecondWorstVertexIsReflected) {
  const Space space{real("x", 0, 1), real("y", 0, 1)};  // values are positions
  NelderMead simplex(space, {.start = {0.4, 0.4}}, 1);
  CounterRng random(1);
  double loss = 3;  // losses of (0.4, 0.4), (0.65, 0.4) and (0.4, 0.65): 3, 2 and 1
  for (int i = 0; i < 3; ++i) simplex.tell(evaluated(simplex.ask(nobody, random), loss--));
  std::vector<Proposal> move;
  for (int i = 0; i < 5; ++i) move.push_back(simplex.ask(nobody, random));
  const auto expect_near = [](const Position& position, double x, double y) {
    EXPECT_NEAR(position[0], x, 1e-12);
    EXPECT_NEAR(position[1], y, 1e-12);
  };
  expect_near(move[0].values, 0.65, 0.65);
  expect_near(move[1].values, 0.775, 0.775);
  expect_near(move[2].values, 0.4625, 0.4625);
  expect_near(move[3].values, 0.5875, 0.5875);
  expect_near(move[4].values, 0.15, 0.65);
  EXPECT_EQ(simplex.ask(nobody, random).tag.index, -1);
  simplex.tell(evaluated(move[4], 0.0));                                                    // replaces (0.65, 0.4)
  for (int i = 0; i < 4; ++i) simplex.tell(evaluated(move[static_cast<size_t>(i)], -1.0));  // ends the move
  expect_near(simplex.ask(nobody, random).values, 0.15, 0.9);
}

TEST(NelderMead, TheSameIsProposedAgain) {
  const TestFunction function = test_function("rastrigin", 4);
  const Space space = function.space();
  const auto run = [&](uint64_t seed) {
    NelderMead simplex(space, {}, seed);
    return losses_of(simplex, function, 2000, 3);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(NelderMead, RefusesWrongOptions) {
  const Space space{real("x", 0, 1), real("y", 0, 1)};
  for (const NelderMeadOptions& wrong : std::vector<NelderMeadOptions>{{.reflection = 0},
                                                                       {.expansion = 1},
                                                                       {.contraction = 1},
                                                                       {.shrinkage = 0},
                                                                       {.side = 0.6},
                                                                       {.collapsed = 0.3},
                                                                       {.start = {0.5}},
                                                                       {.start = {0.5, 1.5}}}) {
    EXPECT_THROW(NelderMead(space, wrong, 1), ContractError);
  }
  EXPECT_THROW(adaptive_nelder_mead(1), ContractError);
}

TEST(NelderMead, BeginsWiderInMoreDimensions) {
  EXPECT_EQ(NelderMeadOptions{}.side_in(1), 0.125);
  EXPECT_EQ(NelderMeadOptions{}.side_in(2), 0.25);
  EXPECT_EQ(NelderMeadOptions{}.side_in(10), 0.5);
  EXPECT_EQ(NelderMeadOptions{.side = 0.1}.side_in(10), 0.1);
}

// The best loss under noise is luck, so a simplex that keeps shrinking around it learns nothing. For smooth losses, however stretched, it continues.
TEST(NelderMead, BeginsAnewInNoiseAlone) {
  const TestFunction valley = test_function("rosenbrock", 2);
  const Space space = valley.space();
  const auto runs_of = [&](const std::function<double(const std::vector<double>&)>& loss) {
    NelderMead simplex(space, {}, 1);
    for (uint64_t trial = 0; trial < 100; ++trial) {
      CounterRng random(1, trial);
      const Proposal proposal = simplex.ask(nobody, random);
      simplex.tell(evaluated(proposal, loss(proposal.values)));
    }
    return simplex.restarts();
  };
  CounterRng noise(2);
  EXPECT_GE(runs_of([&](const std::vector<double>&) { return uniform(noise); }), 2);
  EXPECT_EQ(runs_of([&](const std::vector<double>& x) { return valley.value(x); }), 0);
  EXPECT_EQ(runs_of([&](const std::vector<double>& x) { return 1e6 * x[0] * x[0] + x[1] * x[1]; }), 0);
}

}  // namespace nelder_mead_test
}  // namespace tw::search
