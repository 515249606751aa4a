// SPDX-License-Identifier: Apache-2.0
// f1 = x1 and f2 = g h(f1, g); g = 1 + 9 times the mean of the other variables, which are all 0 on the best front.
#include "test_functions.hpp"

#include <cmath>
#include <numbers>
#include <tw/base/concat.hpp>

namespace tw::search {
namespace {

double mean_of_others(std::span<const double> x) {
  double total = 0;
  for (const double each : x.subspan(1)) total += each;
  return total / static_cast<double>(x.size() - 1);
}

template <double (*h)(double f1, double g)>
std::vector<double> zdt(std::span<const double> x) {
  const double g = 1 + 9 * mean_of_others(x);
  return {x[0], g * h(x[0], g)};
}

double convex(double f1, double g) { return 1 - std::sqrt(f1 / g); }
double concave(double f1, double g) { return 1 - (f1 / g) * (f1 / g); }
double in_pieces(double f1, double g) { return 1 - std::sqrt(f1 / g) - f1 / g * std::sin(10 * std::numbers::pi * f1); }

}  // namespace

Space TestProblem::space() const {
  std::vector<Parameter> parameters;
  for (size_t i = 0; i < dimensions; ++i) parameters.push_back(real(concat('x', i), 0, 1));
  return Space(std::move(parameters));
}

std::vector<TestProblem> zdt_problems() {
  // The integral of 1.1 - f2 over f1 from 0 to 1, plus 0.1 (1.1 - f2(1)). The value of ZDT3 comes from the midpoint rule; all digits shown are exact.
  return {{"zdt1", 30, zdt<convex>, 23.0 / 30 + 0.11}, {"zdt2", 30, zdt<concave>, 13.0 / 30 + 0.11}, {"zdt3", 30, zdt<in_pieces>, 1.33176290865}};
}

}  // namespace tw::search
