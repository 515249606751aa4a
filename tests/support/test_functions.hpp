// SPDX-License-Identifier: Apache-2.0
// Functions with known minima, on which propagators are measured.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// A function to minimize within a box.
struct TestFunction {
  std::string name;
  std::vector<double> low;        ///< by dimension
  std::vector<double> high;       ///< by dimension
  double minimum;                 ///< within the limits
  std::vector<double> minimizer;  ///< a point that attains it
  std::function<double(std::span<const double>)> value;

  size_t dimensions() const noexcept { return low.size(); }
  /// Real parameters "x0", "x1", ... with these limits, so that values of the space are arguments of the function.
  Space space() const;
};

/// All of them, each in its usual number of dimensions.
std::vector<TestFunction> test_functions();
/// @param dimensions 0: the usual number. @throws ContractError for an unknown name, or dimensions in which the function is not defined
TestFunction test_function(std::string_view name, size_t dimensions = 0);

/// x -> f(m + R (x - m)) with the minimizer m and a random orthogonal R: the minimum and the limits stay, but no axis is special. Values of f outside
/// its limits become reachable: schwefel is lower there.
TestFunction rotated(const TestFunction& function, uint64_t seed);
/// x -> f(x + offset), with the limits in place. @param offset by dimension; the minimizer must stay within the limits
TestFunction shifted(const TestFunction& function, const std::vector<double>& offset);

/// Two objectives, both to be minimized within the unit cube.
struct TestProblem {
  std::string name;
  size_t dimensions;
  std::vector<double> (*objectives)(std::span<const double>);
  double hypervolume;  ///< of the best possible front, with respect to the reference (1.1, 1.1)

  /// Real parameters "x0", "x1", ... from 0 to 1.
  Space space() const;
};

/// ZDT1 to 3, with convex, concave and disconnected fronts; in 30 dimensions. Ref: Zitzler, Deb & Thiele 2000.
std::vector<TestProblem> zdt_problems();

}  // namespace tw::search
