// SPDX-License-Identifier: Apache-2.0
#include "bbob.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tw/evolution/draws.hpp>
#include <vector>

namespace tw::testing {
namespace {

using search::uniform;
using std::numbers::pi;
using tw::uniform;
using Vector = std::vector<double>;
using Value = std::function<double(std::span<const double>)>;

double square(double x) { return x * x; }

Vector operator-(std::span<const double> a, const Vector& b) {
  Vector d(a.begin(), a.end());
  for (size_t i = 0; i < d.size(); ++i) d[i] -= b[i];
  return d;
}

/// i / (D - 1), by dimension.
double place(size_t i, size_t dimensions) { return static_cast<double>(i) / static_cast<double>(dimensions - 1); }

class Matrix {
 public:
  explicit Matrix(size_t n) : n_(n), rows_(n * n) {}
  double& at(size_t row, size_t column) { return rows_[row * n_ + column]; }
  double at(size_t row, size_t column) const { return rows_[row * n_ + column]; }
  Vector operator*(const Vector& x) const {
    Vector y(n_);
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < n_; ++j) y[i] += at(i, j) * x[j];
    }
    return y;
  }

 private:
  size_t n_;
  Vector rows_;
};

/// A random orthogonal matrix, by Gram-Schmidt.
Matrix rotation(size_t n, CounterRng& random) {
  Matrix q(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) q.at(i, j) = normal(random);
    for (size_t k = 0; k < i; ++k) {
      double along = 0;
      for (size_t j = 0; j < n; ++j) along += q.at(i, j) * q.at(k, j);
      for (size_t j = 0; j < n; ++j) q.at(i, j) -= along * q.at(k, j);
    }
    double squares = 0;
    for (size_t j = 0; j < n; ++j) squares += square(q.at(i, j));
    for (size_t j = 0; j < n; ++j) q.at(i, j) /= std::sqrt(squares);
  }
  return q;
}

Vector random_vector(size_t n, double low, double high, CounterRng& random) {
  Vector x(n);
  for (double& each : x) each = uniform(random, low, high);
  return x;
}
Vector random_signs(size_t n, CounterRng& random) {
  Vector signs(n);
  for (double& each : signs) each = search::bernoulli(random, 0.5) ? 1 : -1;
  return signs;
}

// The transformations in section 0.2 of the definitions.
double oscillated(double x) {
  if (x == 0) return 0;
  const double log = std::log(std::abs(x));
  const double c1 = x > 0 ? 10 : 5.5;
  const double c2 = x > 0 ? 7.9 : 3.1;
  return std::copysign(std::exp(log + 0.049 * (std::sin(c1 * log) + std::sin(c2 * log))), x);
}
Vector oscillated(Vector x) {
  for (double& each : x) each = oscillated(each);
  return x;
}
Vector asymmetric(double beta, Vector x) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] > 0) x[i] = std::pow(x[i], 1 + beta * place(i, x.size()) * std::sqrt(x[i]));
  }
  return x;
}
Vector conditioned(double alpha, Vector x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] *= std::pow(alpha, 0.5 * place(i, x.size()));
  return x;
}
double penalty(std::span<const double> x) {
  double sum = 0;
  for (const double each : x) sum += square(std::max(0.0, std::abs(each) - 5));
  return sum;
}

double ellipsoid(const Vector& z, double exponent = 6) {
  double sum = 0;
  for (size_t i = 0; i < z.size(); ++i) sum += std::pow(10, exponent * place(i, z.size())) * square(z[i]);
  return sum;
}
double rastrigin(const Vector& z) {
  double sum = 10 * static_cast<double>(z.size());
  for (const double each : z) sum += square(each) - 10 * std::cos(2 * pi * each);
  return sum;
}
double rosenbrock(const Vector& z) {
  double sum = 0;
  for (size_t i = 0; i + 1 < z.size(); ++i) sum += 100 * square(square(z[i]) - z[i + 1]) + square(z[i] - 1);
  return sum;
}
double squares_from(size_t first, const Vector& z) {
  return std::accumulate(z.begin() + static_cast<std::ptrdiff_t>(first), z.end(), 0.0, [](double sum, double each) { return sum + square(each); });
}

double schaffers(const Vector& z) {
  double sum = 0;
  for (size_t i = 0; i + 1 < z.size(); ++i) {
    const double s = std::sqrt(square(z[i]) + square(z[i + 1]));
    sum += std::sqrt(s) * (1 + square(std::sin(50 * std::pow(s, 0.2))));
  }
  return square(sum / static_cast<double>(z.size() - 1));
}

double griewank_rosenbrock(const Vector& z) {
  double sum = 0;
  for (size_t i = 0; i + 1 < z.size(); ++i) {
    const double s = 100 * square(square(z[i]) - z[i + 1]) + square(z[i] - 1);
    sum += s / 4000 - std::cos(s);
  }
  return 10 * sum / static_cast<double>(z.size() - 1) + 10;
}

double weierstrass(const Vector& z) {
  double sum = 0;
  double least = 0;
  for (int k = 0; k < 12; ++k) {
    least += std::pow(0.5, k) * std::cos(pi * std::pow(3, k));
    for (const double each : z) sum += std::pow(0.5, k) * std::cos(2 * pi * std::pow(3, k) * (each + 0.5));
  }
  return 10 * std::pow(sum / static_cast<double>(z.size()) - least, 3);
}

double katsuura(const Vector& z) {
  const auto n = static_cast<double>(z.size());
  double product = 1;
  for (size_t i = 0; i < z.size(); ++i) {
    double sum = 0;
    for (int j = 1; j <= 32; ++j) {
      const double scaled = std::ldexp(z[i], j);
      sum += std::ldexp(std::abs(scaled - std::round(scaled)), -j);
    }
    product *= std::pow(1 + static_cast<double>(i + 1) * sum, 10 / std::pow(n, 1.2));
  }
  return 10 / square(n) * (product - 1);
}

Value step_ellipsoid(const Vector& best, Matrix q, Matrix r) {
  return [=](std::span<const double> x) {
    const Vector stretched = conditioned(10, r * (x - best));
    Vector z = stretched;
    for (double& each : z) each = std::abs(each) > 0.5 ? std::floor(0.5 + each) : std::floor(0.5 + 10 * each) / 10;
    return 0.1 * std::max(std::abs(stretched[0]) / 1e4, ellipsoid(q * z, 2)) + penalty(x);
  };
}

Value schwefel(size_t n, CounterRng& random) {
  const Vector signs = random_signs(n, random);
  constexpr double twice = 4.2096874633;  // 2 |x_opt|
  return [=](std::span<const double> x) {
    Vector z(n);
    for (size_t i = 0; i < n; ++i) z[i] = 2 * signs[i] * x[i] + (i == 0 ? 0 : 0.25 * (2 * signs[i - 1] * x[i - 1] - twice));
    double sum = 0;
    for (size_t i = 0; i < n; ++i) {
      z[i] = 100 * (std::pow(10, 0.5 * place(i, n)) * (z[i] - twice) + twice);
      sum += z[i] * std::sin(std::sqrt(std::abs(z[i])));
      z[i] /= 100;
    }
    return -sum / (100 * static_cast<double>(n)) + 4.189828872724339 + 100 * penalty(z);
  };
}

// Peaks of different heights and shapes.
Value gallagher(size_t n, size_t peaks, double condition_of_best, double width, CounterRng& random) {
  const Matrix r = rotation(n, random);
  std::vector<Vector> places;
  std::vector<Vector> shapes;
  Vector heights;
  Vector conditions;
  for (size_t j = 0; j + 1 < peaks; ++j) conditions.push_back(std::pow(1000, 2 * place(j, peaks - 1)));
  const auto shuffle = [&](Vector& of) {
    for (size_t i = of.size(); i > 1; --i) std::swap(of[i - 1], of[search::index_below(random, i)]);
  };
  shuffle(conditions);
  for (size_t i = 0; i < peaks; ++i) {
    const double condition = i == 0 ? condition_of_best : conditions[i - 1];
    heights.push_back(i == 0 ? 10 : 1.1 + 8 * place(i - 1, peaks - 1));
    Vector shape(n);
    for (size_t d = 0; d < n; ++d) shape[d] = std::pow(condition, 0.5 * place(d, n)) / std::pow(condition, 0.25);
    shuffle(shape);
    shapes.push_back(shape);
    places.push_back(r * random_vector(n, i == 0 ? -0.8 * width : -width, i == 0 ? 0.8 * width : width, random));
  }
  return [=](std::span<const double> x) {
    const Vector rotated = r * Vector(x.begin(), x.end());
    double highest = 0;
    for (size_t i = 0; i < peaks; ++i) {
      double distance = 0;
      for (size_t d = 0; d < n; ++d) distance += shapes[i][d] * square(rotated[d] - places[i][d]);
      highest = std::max(highest, heights[i] * std::exp(-distance / (2 * static_cast<double>(n))));
    }
    return square(oscillated(10 - highest)) + penalty(x);
  };
}

Value lunacek(size_t n, CounterRng& random) {
  constexpr double mu0 = 2.5;
  const Matrix q = rotation(n, random);
  const Matrix r = rotation(n, random);
  const Vector signs = random_signs(n, random);
  const auto dimensions = static_cast<double>(n);
  const double s = 1 - 1 / (2 * std::sqrt(dimensions + 20) - 8.2);
  const double mu1 = -std::sqrt((square(mu0) - 1) / s);
  return [=](std::span<const double> x) {
    Vector centred(n);
    double first = 0;
    double second = dimensions;
    for (size_t i = 0; i < n; ++i) {
      const double mirrored = 2 * signs[i] * x[i];
      first += square(mirrored - mu0);
      second += s * square(mirrored - mu1);
      centred[i] = mirrored - mu0;
    }
    double waves = dimensions;
    for (const double each : q* conditioned(100, r * centred)) waves -= std::cos(2 * pi * each);
    return std::min(first, second) + 10 * waves + 1e4 * penalty(x);
  };
}

Value value_of(int number, size_t n, CounterRng& random) {
  const Matrix q = rotation(n, random);
  const Matrix r = rotation(n, random);
  Vector best = random_vector(n, -4, 4, random);
  const double stretch = std::max(1.0, std::sqrt(static_cast<double>(n)) / 8);
  const auto around_half = [=](std::span<const double> x) {
    Vector z = r * Vector(x.begin(), x.end());
    for (double& each : z) each = stretch * each + 0.5;
    return z;
  };
  switch (number) {
    case 1: return [=](std::span<const double> x) { return squares_from(0, x - best); };
    case 2: return [=](std::span<const double> x) { return ellipsoid(oscillated(x - best)); };
    case 3: return [=](std::span<const double> x) { return rastrigin(conditioned(10, asymmetric(0.2, oscillated(x - best)))); };
    case 4:
      for (size_t i = 0; i < n; i += 2) best[i] = std::abs(best[i]);
      return [=](std::span<const double> x) {
        Vector z = oscillated(x - best);
        for (size_t i = 0; i < n; ++i) z[i] *= (z[i] > 0 && i % 2 == 0 ? 10 : 1) * std::pow(10, 0.5 * place(i, n));
        return rastrigin(z) + 100 * penalty(x);
      };
    case 5:
      return [=](std::span<const double> x) {
        double sum = 0;
        for (size_t i = 0; i < n; ++i) {
          const double slope = std::copysign(std::pow(10, place(i, n)), best[i]);
          const double corner = std::copysign(5, best[i]);
          sum += 5 * std::abs(slope) - slope * (corner * x[i] < 25 ? x[i] : corner);
        }
        return sum;
      };
    case 6:
      return [=](std::span<const double> x) {
        const Vector z = q * conditioned(10, r * (x - best));
        double sum = 0;
        for (size_t i = 0; i < n; ++i) sum += square((z[i] * best[i] > 0 ? 100 : 1) * z[i]);
        return std::pow(oscillated(sum), 0.9);
      };
    case 7: return step_ellipsoid(best, q, r);
    case 8:
      for (double& each : best) each *= 0.75;
      return [=](std::span<const double> x) {
        Vector z = x - best;
        for (double& each : z) each = stretch * each + 1;
        return rosenbrock(z);
      };
    case 9: return [=](std::span<const double> x) { return rosenbrock(around_half(x)); };
    case 10: return [=](std::span<const double> x) { return ellipsoid(oscillated(r * (x - best))); };
    case 11:
      return [=](std::span<const double> x) {
        const Vector z = oscillated(r * (x - best));
        return 1e6 * square(z[0]) + squares_from(1, z);
      };
    case 12:
      return [=](std::span<const double> x) {
        const Vector z = r * asymmetric(0.5, r * (x - best));
        return square(z[0]) + 1e6 * squares_from(1, z);
      };
    case 13:
      return [=](std::span<const double> x) {
        const Vector z = q * conditioned(10, r * (x - best));
        return square(z[0]) + 100 * std::sqrt(squares_from(1, z));
      };
    case 14:
      return [=](std::span<const double> x) {
        const Vector z = r * (x - best);
        double sum = 0;
        for (size_t i = 0; i < n; ++i) sum += std::pow(std::abs(z[i]), 2 + 4 * place(i, n));
        return std::sqrt(sum);
      };
    case 15: return [=](std::span<const double> x) { return rastrigin(r * conditioned(10, q * asymmetric(0.2, oscillated(r * (x - best))))); };
    case 16:
      return [=](std::span<const double> x) {
        return weierstrass(r * conditioned(0.01, q * oscillated(r * (x - best)))) + 10 / static_cast<double>(n) * penalty(x);
      };
    case 17:
    case 18: {
      const double condition = number == 17 ? 10 : 1000;
      return [=](std::span<const double> x) { return schaffers(conditioned(condition, q * asymmetric(0.5, r * (x - best)))) + 10 * penalty(x); };
    }
    case 19: return [=](std::span<const double> x) { return griewank_rosenbrock(around_half(x)); };
    case 20: return schwefel(n, random);
    case 21: return gallagher(n, 101, 1000, 5, random);
    case 22: return gallagher(n, 21, 1e6, 4.9, random);
    case 23: return [=](std::span<const double> x) { return katsuura(q * conditioned(100, r * (x - best))) + penalty(x); };
    default: return lunacek(n, random);
  }
}

}  // namespace

BbobFunction bbob_function(int number, size_t dimensions, uint64_t instance) {
  CounterRng random(derived_seed(instance, static_cast<uint64_t>(number)), dimensions);
  const double minimum = std::clamp(std::round(100 * 100 * normal(random) / normal(random)) / 100, -1000.0, 1000.0);
  return {number, minimum, [value = value_of(number, dimensions, random), minimum](std::span<const double> x) { return value(x) + minimum; }};
}

}  // namespace tw::testing
