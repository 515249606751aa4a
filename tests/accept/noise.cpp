// SPDX-License-Identifier: Apache-2.0
// What propagators find under noise whose standard deviation is a tenth of the function's range: the true loss of the trial that looked best,
// compared with random search with the same number of evaluations. A propagator loses if its losses are above random search's significantly often.
// Run: accept_noise [SEEDS] [PROPAGATOR] [EVALUATIONS_BY_DIMENSION] [DIMENSIONS ...] [--functions]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <tw/evolution/draws.hpp>
#include <vector>

#include "propagators.hpp"
#include "test_functions.hpp"

namespace {

using namespace tw::search;

constexpr double noise = 0.1;               // as a share of the range
constexpr double deviations = 3;            // allowed deviations of the share of pairs from one half
constexpr int64_t max_for_processes = 500;  // evaluations: the cost of a Gaussian process's proposal grows with them
const std::vector<std::string> all_propagators = {"automatic",   "hybrid", "quadratic_trust_region", "cma_es",
                                                  "nelder_mead", "tpe",    "gaussian_process",       "genetic"};

struct Objective {
  std::string name;
  TestFunction function;  // its minimizer is not where searches try first
  double range = 0;       // over 10^4 points
};

Objective objective(const std::string& name, size_t dimensions, bool turned) {
  TestFunction function = test_function(name, dimensions);
  tw::CounterRng random(7, dimensions);
  std::vector<double> offset;
  for (size_t d = 0; d < dimensions; ++d) {
    const double from_middle = 2 * function.minimizer[d] - function.low[d] - function.high[d];
    const bool downwards = from_middle == 0 ? bernoulli(random, 0.5) : from_middle > 0;
    offset.push_back((downwards ? 1 : -1) * uniform(random, 0.05, 0.25) * (function.high[d] - function.low[d]));
  }
  function = shifted(turned ? rotated(function, dimensions) : function, offset);
  double least = 1e300;
  double most = -1e300;
  std::vector<double> x(dimensions);
  for (int i = 0; i < 10000; ++i) {
    for (size_t d = 0; d < dimensions; ++d) x[d] = uniform(random, function.low[d], function.high[d]);
    const double value = function.value(x);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  return {(turned ? "rotated " : "") + name, function, most - least};
}

std::vector<Objective> objectives(size_t dimensions) {
  return {objective("sphere", dimensions, false),    objective("ellipsoid", dimensions, true), objective("rosenbrock", dimensions, true),
          objective("rastrigin", dimensions, false), objective("rastrigin", dimensions, true), objective("griewank", dimensions, true)};
}

/// The true loss of the trial that looked best, above the minimum, as a share of the range.
double regret(const std::string& name, const Objective& objective, int64_t evaluations, uint64_t seed) {
  const Space space = objective.function.space();
  const auto propagator = tw::testing::propagator_named(name, space, evaluations, seed);
  const auto noisy = [&](const std::vector<double>& x, int64_t trial) {
    tw::CounterRng random(tw::derived_seed(seed, 99), static_cast<uint64_t>(trial));
    return objective.function.value(x) + noise * objective.range * normal(random);
  };
  const Population population = tw::testing::searched(*propagator, noisy, {.evaluations = evaluations, .seed = seed});
  return (objective.function.value(population.best()->values) - objective.function.minimum) / objective.range;
}

std::vector<double> regrets(const std::string& name, const Objective& objective, int64_t evaluations, int seeds) {
  std::vector<double> all;
  for (int seed = 0; seed < seeds; ++seed) all.push_back(regret(name, objective, evaluations, tw::derived_seed(31, static_cast<uint64_t>(seed))));
  std::sort(all.begin(), all.end());
  return all;
}

/// The share of pairs (a, b) in which a is less. Ref: Mann & Whitney 1947.
double share_less(const std::vector<double>& a, const std::vector<double>& b) {
  double less = 0;
  for (const double x : a) {
    for (const double y : b) less += x < y ? 1 : x == y ? 0.5 : 0;
  }
  return less / static_cast<double>(a.size() * b.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool details = std::erase(words, "--functions") > 0;
  const int seeds = words.empty() ? 21 : std::stoi(words[0]);
  const std::vector<std::string> propagators = words.size() > 1 ? std::vector{words[1]} : all_propagators;
  const std::vector<int64_t> budgets = words.size() > 2 ? std::vector<int64_t>{std::stoll(words[2])} : std::vector<int64_t>{20, 50, 200};
  std::vector<size_t> all_dimensions;
  for (size_t i = 3; i < words.size(); ++i) all_dimensions.push_back(std::stoul(words[i]));
  if (all_dimensions.empty()) all_dimensions = {2, 5, 10};
  // The variance of the share of pairs, for two samples of size n from one distribution, is (2 n + 1) / (12 n^2).
  const double min_share = 0.5 - deviations * std::sqrt((2.0 * seeds + 1) / (12.0 * seeds * seeds));
  int lost = 0;
  for (const size_t dimensions : all_dimensions) {
    const std::vector<Objective> functions = objectives(dimensions);
    for (const int64_t by_dimension : budgets) {
      const int64_t evaluations = by_dimension * static_cast<int64_t>(dimensions);
      std::vector<std::vector<double>> of_random;
      for (const Objective& each : functions) of_random.push_back(regrets("random", each, evaluations, seeds));
      for (const std::string& name : propagators) {
        if (name == "gaussian_process" && evaluations > max_for_processes) continue;
        double logs = 0;
        double least = 1;
        std::string lines;
        for (size_t i = 0; i < functions.size(); ++i) {
          const std::vector<double> own = regrets(name, functions[i], evaluations, seeds);
          const size_t middle = own.size() / 2;
          const double share = share_less(own, of_random[i]);
          logs += std::log(own[middle] / of_random[i][middle]) / static_cast<double>(functions.size());
          least = std::min(least, share);
          lost += share < min_share ? 1 : 0;
          char line[160];
          std::snprintf(line, sizeof line, "    %-20s %.4f, random %.4f, better in %.2f of pairs%s\n", functions[i].name.c_str(), own[middle],
                        of_random[i][middle], share, share < min_share ? ": LOST" : "");
          if (details || share < min_share) lines += line;
        }
        std::printf("%-17s %2zu dimensions, %5ld evaluations: %.2f of random search's loss (geometric mean), better in %.2f of pairs at least\n%s",
                    name.c_str(), dimensions, static_cast<long>(evaluations), std::exp(logs), least, lines.c_str());
        std::fflush(stdout);
      }
    }
  }
  std::printf("%d lost\n", lost);
  return lost == 0 ? 0 : 1;
}
