// SPDX-License-Identifier: Apache-2.0
// Functions with known minima, to measure propagators on.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// To be minimized within a box.
struct TestFunction {
  std::string name;
  std::vector<double> low;        ///< by dimension
  std::vector<double> high;       ///< by dimension
  double minimum;                 ///< within the limits
  std::vector<double> minimizer;  ///< a point where it is
  std::function<double(std::span<const double>)> value;

  size_t dimensions() const noexcept { return low.size(); }
  /// Real parameters "x0", "x1", ... with these limits, so that values of the space are arguments of the function.
  Space space() const;
};

/// All of them, each in the number of dimensions in which it is usually measured.
std::vector<TestFunction> test_functions();
/// @param dimensions 0: the usual number. @throws ContractError for a name that there is not, or a number that it does not exist in
TestFunction test_function(std::string_view name, size_t dimensions = 0);

/// x -> f(m + R (x - m)) with the minimizer m and a random orthogonal R: the minimum and the limits stay, but no axis is special any more. What f is
/// outside its limits is seen, too: schwefel is lower there.
TestFunction rotated(const TestFunction& function, uint64_t seed);
/// x -> f(x + offset), with the limits in place. @param offset by dimension; the minimizer has to stay within them
TestFunction shifted(const TestFunction& function, const std::vector<double>& offset);

/// Two objectives, both to be minimized within the unit cube.
struct TestProblem {
  std::string name;
  size_t dimensions;
  std::vector<double> (*objectives)(std::span<const double>);
  double hypervolume;  ///< of the best possible front, to the reference (1.1, 1.1)

  /// Real parameters "x0", "x1", ... from 0 to 1.
  Space space() const;
};

/// ZDT1 to 3, whose fronts are convex, concave, and in pieces; in 30 dimensions. Ref: Zitzler, Deb & Thiele 2000.
std::vector<TestProblem> zdt_problems();

}  // namespace tw::search
