// SPDX-License-Identifier: Apache-2.0
// The share of targets that a propagator reaches on the black-box optimisation benchmark: 24 functions, three instances of each, and 11 targets from
// 1e2 to 1e-8 above the minimum. Medians over seeds.
// Run: accept_bbob PROPAGATOR EVALUATIONS_BY_DIMENSION [SEEDS] [IN_FLIGHT] [DIMENSIONS ...] [--functions]
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "bbob.hpp"
#include "propagators.hpp"

namespace {

using namespace tw::search;

constexpr int functions = 24;
constexpr int instances = 3;
constexpr int targets = 11;

/// The best loss above the minimum, with `in_flight` trials in flight at any time.
double precision(const std::string& name, const tw::testing::BbobFunction& function, size_t dimensions, int64_t evaluations, size_t in_flight,
                 uint64_t seed) {
  std::vector<Parameter> parameters;
  for (size_t d = 0; d < dimensions; ++d) parameters.push_back(real("x" + std::to_string(d), -5, 5));
  const Space space(parameters);
  const auto propagator = tw::testing::propagator_named(name, space, evaluations, seed);
  const auto loss = [&](const std::vector<double>& x, int64_t) { return function.value(x); };
  return tw::testing::searched(*propagator, loss, {evaluations, in_flight, seed}).best()->loss - function.minimum;
}

int reached(double precision) {
  int count = 0;
  for (int k = 0; k < targets; ++k) count += precision <= std::pow(10, 2 - k) ? 1 : 0;
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool details = std::erase(words, "--functions") > 0;
  if (words.size() < 2) {
    std::fprintf(stderr, "usage: accept_bbob PROPAGATOR EVALUATIONS_BY_DIMENSION [SEEDS] [IN_FLIGHT] [DIMENSIONS ...] [--functions]\n");
    return 2;
  }
  const int64_t by_dimension = std::stoll(words[1]);
  const int seeds = words.size() > 2 ? std::stoi(words[2]) : 3;
  const size_t in_flight = words.size() > 3 ? std::stoul(words[3]) : 1;
  std::vector<size_t> all_dimensions;
  for (size_t i = 4; i < words.size(); ++i) all_dimensions.push_back(std::stoul(words[i]));
  if (all_dimensions.empty()) all_dimensions = {2, 5, 10};
  for (const size_t dimensions : all_dimensions) {
    std::vector<double> shares;
    std::array<double, functions> by_function{};
    for (int seed = 0; seed < seeds; ++seed) {
      double sum = 0;
      for (int number = 1; number <= functions; ++number) {
        for (int instance = 1; instance <= instances; ++instance) {
          const auto function = tw::testing::bbob_function(number, dimensions, static_cast<uint64_t>(instance));
          const auto stream = static_cast<uint64_t>(1000 * seed + instance);
          const double share = reached(precision(words[0], function, dimensions, by_dimension * static_cast<int64_t>(dimensions), in_flight,
                                                 tw::derived_seed(stream, static_cast<uint64_t>(number)))) /
                               static_cast<double>(targets);
          sum += share;
          by_function[static_cast<size_t>(number - 1)] += share / (instances * seeds);
        }
      }
      shares.push_back(sum / (functions * instances));
    }
    std::sort(shares.begin(), shares.end());
    std::printf("%s, %ld evaluations a dimension, %zu dimensions, %zu in flight: %.3f (%.3f to %.3f)\n", words[0].c_str(),
                static_cast<long>(by_dimension), dimensions, in_flight, shares[shares.size() / 2], shares.front(), shares.back());
    for (int i = 0; details && i < functions; ++i) {
      std::printf("  f%-2d %.3f%s", i + 1, by_function[static_cast<size_t>(i)], i % 6 == 5 ? "\n" : "");
    }
    std::fflush(stdout);
  }
}
