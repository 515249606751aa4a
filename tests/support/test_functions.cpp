// SPDX-License-Identifier: Apache-2.0
#include "test_functions.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/suggest.hpp>
#include <tw/evolution/draws.hpp>

namespace tw::search {
namespace {

using Point = std::span<const double>;
constexpr double two_pi = 2 * std::numbers::pi;

double square(double x) { return x * x; }

template <class Term>
double sum(Point x, const Term& term) {
  double total = 0;
  for (const double each : x) total += term(each);
  return total;
}

// De Jong 1975, F1.
double sphere(Point x) { return sum(x, square); }

// Rosenbrock 1960; in n dimensions as in De Jong's F2: sum 100 (x_i+1 - x_i^2)^2 + (1 - x_i)^2.
double rosenbrock(Point x) {
  double total = 0;
  for (size_t i = 0; i + 1 < x.size(); ++i) total += 100 * square(x[i + 1] - square(x[i])) + square(1 - x[i]);
  return total;
}

// De Jong 1975, F3: the sum of integer parts, rounded to zero as in arXiv 2301.08713, so that the least is -5 n within 5.12.
double step(Point x) {
  return sum(x, [](double each) { return std::trunc(each); });
}

// De Jong 1975, F4, without its noise: sum i x_i^4.
double quartic(Point x) {
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) total += static_cast<double>(i + 1) * square(square(x[i]));
  return total;
}

// Rastrigin 1974: 10 n + sum x^2 - 10 cos(2 pi x).
double rastrigin(Point x) {
  return sum(x, [](double each) { return square(each) + 10 * (1 - std::cos(two_pi * each)); });
}

// Griewank 1981: 1 + sum x^2 / 4000 - prod cos(x_i / sqrt(i)).
double griewank(Point x) {
  double product = 1;
  for (size_t i = 0; i < x.size(); ++i) product *= std::cos(x[i] / std::sqrt(static_cast<double>(i + 1)));
  return sphere(x) / 4000 + 1 - product;
}

// Schwefel 1981, 2.26: sum 418.98... - x sin sqrt |x|.
double schwefel(Point x) {
  return sum(x, [](double each) { return 418.98288727243380 - each * std::sin(std::sqrt(std::abs(each))); });
}

// Two funnels. Lunacek, Whitley & Sutton 2008: min(sum (x - mu1)^2, d n + s sum (x - mu2)^2).
constexpr double funnel = 2.5;  // mu1

double bisphere(Point x) {
  const auto n = static_cast<double>(x.size());
  const double d = 1;
  const double s = 1 - 1 / (2 * std::sqrt(n + 20) - 8.2);
  const double other = -std::sqrt((square(funnel) - d) / s);  // mu2
  return std::min(sum(x, [](double each) { return square(each - funnel); }), d * n + s * sum(x, [&](double each) { return square(each - other); }));
}

// The same, plus 10 sum 1 - cos(2 pi (x - mu1)).
double birastrigin(Point x) {
  return bisphere(x) + 10 * sum(x, [](double each) { return 1 - std::cos(two_pi * (each - funnel)); });
}

// Jamil & Yang 2013 (arXiv 1308.4008) for the next five. Bukin's N. 6:
double bukin(Point x) { return 100 * std::sqrt(std::abs(x[1] - 0.01 * square(x[0]))) + 0.01 * std::abs(x[0] + 10); }

double eggcrate(Point x) {
  return sum(x, [](double each) { return square(each) + 25 * square(std::sin(each)); });
}

double himmelblau(Point x) { return square(square(x[0]) + x[1] - 11) + square(x[0] + square(x[1]) - 7); }

double keane(Point x) {
  const double radius = std::hypot(x[0], x[1]);
  return radius == 0 ? 0 : -square(std::sin(x[0] - x[1]) * std::sin(x[0] + x[1])) / radius;
}

// With the cube of arXiv 2301.08713.
double leon(Point x) { return 100 * square(x[1] - x[0] * x[0] * x[0]) + square(1 - x[0]); }

// Hansen's tutorial (arXiv 1604.00772): sum 10^(6 (i - 1) / (n - 1)) x_i^2, with condition number 1e6.
double ellipsoid(Point x) {
  double total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    total += std::pow(1e6, x.size() == 1 ? 0 : static_cast<double>(i) / static_cast<double>(x.size() - 1)) * square(x[i]);
  }
  return total;
}

struct Entry {
  const char* name;
  double (*value)(Point);
  size_t dimensions;
  bool fixed;  // only defined in these dimensions
  double low;
  double high;
  double minimum;  // in one dimension, if their number is free
  double at;       // each coordinate of the minimizer
};

const Entry entries[] = {
    {"sphere", sphere, 2, false, -5.12, 5.12, 0, 0},
    {"rosenbrock", rosenbrock, 2, false, -2.048, 2.048, 0, 1},
    {"step", step, 5, false, -5.12, 5.12, -5, -5.06},
    {"quartic", quartic, 30, false, -1.28, 1.28, 0, 0},
    {"rastrigin", rastrigin, 20, false, -5.12, 5.12, 0, 0},
    {"griewank", griewank, 10, false, -600, 600, 0, 0},
    {"schwefel", schwefel, 10, false, -500, 500, 0, 420.96874635998199},
    {"bisphere", bisphere, 30, false, -5.12, 5.12, 0, funnel},
    {"birastrigin", birastrigin, 30, false, -5.12, 5.12, 0, funnel},
    {"bukin", bukin, 2, true, -15, 3, 0, 0},
    {"eggcrate", eggcrate, 2, false, -5, 5, 0, 0},
    {"himmelblau", himmelblau, 2, true, -6, 6, 0, 0},
    {"keane", keane, 2, true, 0, 10, -0.673667521146855, 0},
    {"leon", leon, 2, true, 0, 10, 0, 1},
    {"ellipsoid", ellipsoid, 10, false, -5, 5, 0, 0},
};

TestFunction of_entry(const Entry& entry, size_t dimensions) {
  TestFunction function{.name = entry.name,
                        .low = std::vector<double>(dimensions, entry.low),
                        .high = std::vector<double>(dimensions, entry.high),
                        .minimum = entry.fixed ? entry.minimum : entry.minimum * static_cast<double>(dimensions),
                        .minimizer = std::vector<double>(dimensions, entry.at),
                        .value = entry.value};
  if (entry.value == bukin) {
    function.low = {-15, -3};
    function.high = {-5, 3};
    function.minimizer = {-10, 1};
  }
  if (entry.value == himmelblau) function.minimizer = {3, 2};
  if (entry.value == keane) function.minimizer = {1.393249070031784, 0};
  return function;
}

/// Row-major, [n, n]. Ref: Stewart 1980, by Gram-Schmidt on normal numbers.
std::vector<double> random_rotation(size_t n, uint64_t seed) {
  CounterRng random(seed);
  std::vector<double> rows(n * n);
  for (size_t i = 0; i < n; ++i) {
    const std::span row(&rows[i * n], n);
    for (double& each : row) each = normal(random);
    // Twice, because once loses digits.
    for (size_t k = 0; k < 2 * i; ++k) {
      const std::span other(&rows[k % i * n], n);
      double dot = 0;
      for (size_t j = 0; j < n; ++j) dot += row[j] * other[j];
      for (size_t j = 0; j < n; ++j) row[j] -= dot * other[j];
    }
    const double length = std::sqrt(sphere(row));
    for (double& each : row) each /= length;
  }
  return rows;
}

}  // namespace

Space TestFunction::space() const {
  std::vector<Parameter> parameters;
  for (size_t i = 0; i < dimensions(); ++i) parameters.push_back(real(concat('x', i), low[i], high[i]));
  return Space(std::move(parameters));
}

std::vector<TestFunction> test_functions() {
  std::vector<TestFunction> all;
  for (const Entry& entry : entries) all.push_back(of_entry(entry, entry.dimensions));
  return all;
}

TestFunction test_function(std::string_view name, size_t dimensions) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    names.emplace_back(entry.name);
    if (names.back() != name) continue;
    const size_t n = dimensions == 0 ? entry.dimensions : dimensions;
    TW_EXPECTS(!entry.fixed || n == entry.dimensions, name, " exists in ", entry.dimensions, " dimensions, not in ", n);
    TW_EXPECTS(n > 1 || (entry.value != rosenbrock && entry.value != bisphere && entry.value != birastrigin), name, " needs two dimensions at least");
    return of_entry(entry, n);
  }
  TW_EXPECTS(false, "there is no function '", name, '\'', suggestion(name, names));
  return {};
}

TestFunction rotated(const TestFunction& function, uint64_t seed) {
  const auto rotation = std::make_shared<const std::vector<double>>(random_rotation(function.dimensions(), seed));
  TestFunction result = function;
  result.name = "rotated " + function.name;
  result.value = [rotation, at = function.minimizer, value = function.value](Point x) {
    std::vector<double> y = at;
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t j = 0; j < y.size(); ++j) y[i] += (*rotation)[i * y.size() + j] * (x[j] - at[j]);
    }
    return value(y);
  };
  return result;
}

TestFunction shifted(const TestFunction& function, const std::vector<double>& offset) {
  TW_EXPECTS(offset.size() == function.dimensions(), "an offset has ", function.dimensions(), " numbers, got ", offset.size());
  TestFunction result = function;
  for (size_t i = 0; i < offset.size(); ++i) {
    result.minimizer[i] -= offset[i];
    TW_EXPECTS(result.minimizer[i] >= function.low[i] && result.minimizer[i] <= function.high[i], "the minimizer leaves the limits in dimension ", i);
  }
  result.value = [offset, value = function.value](Point x) {
    std::vector<double> y(x.begin(), x.end());
    for (size_t i = 0; i < y.size(); ++i) y[i] += offset[i];
    return value(y);
  };
  return result;
}

}  // namespace tw::search
