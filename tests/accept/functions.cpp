// SPDX-License-Identifier: Apache-2.0
// Medians of the losses that a propagator (by default the automatic one) reaches on functions with known minima, compared with Propulate's with the
// same number of evaluations on 152 ranks. Ref: Taubert et al. 2023, arXiv 2301.08713, table 2.
// Run: accept_functions [SEEDS] [PROPAGATOR] [FUNCTION] [--rotated]. With --rotated, no axis is special.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tw/evolution/draws.hpp>
#include <vector>

#include "propagators.hpp"
#include "test_functions.hpp"

namespace {

using namespace tw::search;

constexpr int64_t evaluations = 38912;

struct Goal {
  const char* function;
  size_t dimensions;
  double reached_by_propulate;
};

constexpr Goal goals[] = {{"sphere", 2, 3.4e-7},   {"rosenbrock", 2, 7.7e-6}, {"step", 5, -25},
                          {"quartic", 30, 6.9e-4}, {"rastrigin", 20, 4.59},   {"griewank", 10, 0.55},
                          {"schwefel", 10, 1.92},  {"bisphere", 30, 30.0},    {"birastrigin", 30, 40.3}};

/// Moves a minimum that lies in the middle of the limits, where searches try first, by up to a tenth of the range.
TestFunction moved(const TestFunction& function, uint64_t seed) {
  tw::CounterRng random(seed, 1);
  std::vector<double> offset;
  bool in_the_middle = true;
  for (size_t d = 0; d < function.dimensions(); ++d) {
    in_the_middle = in_the_middle && 2 * function.minimizer[d] == function.low[d] + function.high[d];
    offset.push_back(uniform(random, -0.1, 0.1) * (function.high[d] - function.low[d]));
  }
  return in_the_middle ? shifted(function, offset) : function;
}

double best_of(const std::string& name, const TestFunction& function, uint64_t seed) {
  const Space space = function.space();
  const auto propagator = tw::testing::propagator_named(name, space, evaluations, seed);
  const auto loss = [&](const std::vector<double>& x, int64_t) { return function.value(x); };
  return tw::testing::searched(*propagator, loss, {.evaluations = evaluations, .seed = seed}).best()->loss;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool turned = std::erase(words, "--rotated") > 0;
  const int seeds = words.empty() ? 10 : std::stoi(words[0]);
  const std::string propagator = words.size() > 1 ? words[1] : "automatic";
  int tried = 0;
  int reached = 0;
  for (const Goal& goal : goals) {
    if (seeds < 1 || (words.size() > 2 && goal.function != words[2])) continue;
    const TestFunction function = test_function(goal.function, goal.dimensions);
    std::vector<double> losses;
    for (uint64_t seed = 0; seed < static_cast<uint64_t>(seeds); ++seed) {
      const TestFunction of_seed = turned ? rotated(function, seed) : function;
      losses.push_back(best_of(propagator, moved(of_seed, seed), seed));
    }
    std::sort(losses.begin(), losses.end());
    const size_t middle = losses.size() / 2;
    const double median = losses.size() % 2 == 1 ? losses[middle] : (losses[middle - 1] + losses[middle]) / 2;
    const bool is_reached = median <= goal.reached_by_propulate;
    ++tried;
    reached += is_reached ? 1 : 0;
    std::printf("%-12s %2zu dimensions: median %10.3g of %d seeds (%.3g to %.3g), Propulate %.3g: %s\n", goal.function, goal.dimensions, median,
                seeds, losses.front(), losses.back(), goal.reached_by_propulate, is_reached ? "reached" : "NOT REACHED");
  }
  if (tried == 0) std::fprintf(stderr, "usage: accept_functions [SEEDS] [PROPAGATOR] [FUNCTION] [--rotated]\n");
  return tried > 0 && reached == tried ? 0 : 1;
}
