// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <optional>

#include "normal_tail.hpp"
#include "parzen.hpp"

namespace tw::search {
namespace parzen_test {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

using Values = std::vector<double>;

/// Every kind of parameter, and one that exists only with "sgd".
Space mixed_space() {
  return Space{real("lr", 1e-4, 1e-1, log_scale), integer("layers", 1, 4, log_scale), ordinal("batch", {16, 32, 128}),
               categorical("optimizer", {"sgd", "adam"}), real("momentum", 0, 1).when("optimizer", {"sgd"})};
}

struct Estimate {
  Estimate(const Space& space, std::vector<Values> values, const Values& weights, double bandwidth, double uniform)
      : axes(space), values_of_centres(std::move(values)) {
    for (const Values& each : values_of_centres) coordinates.push_back(axes.coordinates_of(each));
    Parzen::Centres centres;
    for (const Values& each : coordinates) centres.push_back(&each);
    density.emplace(axes, centres, weights, bandwidth, uniform);
  }
  double log_density(const Values& values) const { return density->log_density(axes.coordinates_of(values)); }

  KernelAxes axes;
  std::vector<Values> values_of_centres;
  std::vector<Values> coordinates;
  std::optional<Parzen> density;
};

Estimate some_estimate(const Space& space) {
  return {space, {{1e-3, 2, 0, 0, 0.25}, {1e-2, 4, 1, 1, none}, {3e-3, 2, 2, 0, 0.5}}, Values{3, 2, 1}, 0.5, 2};
}

double normal(double x, double mean, double deviation) {
  return std::exp(-(x - mean) * (x - mean) / (2 * deviation * deviation)) / (deviation * std::sqrt(2 * std::numbers::pi));
}

/// A normal distribution truncated at 0 and 1.
double cut_normal(double x, double mean, double deviation) {
  const double within = (std::erf((1 - mean) / deviation / std::numbers::sqrt2) - std::erf(-mean / deviation / std::numbers::sqrt2)) / 2;
  return normal(x, mean, deviation) / within;
}

TEST(Parzen, DeviationsAreScottsWithTheUniformDensityAsOneMore) {
  // 0.2, 0.4 and a uniform component: mean 11/30, variance (1/12 + (2/15)^2 + (1/6)^2 + (1/30)^2) / 3.
  const double deviation = std::sqrt((1.0 / 12 + 4.0 / 225 + 1.0 / 36 + 1.0 / 900) / 3);
  EXPECT_NEAR(scott_deviation(Values{0.2, 0.4}, 1, 1), deviation * std::pow(2, -0.2), 1e-15);
  EXPECT_NEAR(scott_deviation(Values{0.2, 0.4}, 6, 0.5), 0.5 * deviation * std::pow(2, -0.1), 1e-15);
  EXPECT_NEAR(scott_deviation(Values{}, 3, 1), std::sqrt(1.0 / 12), 1e-15);
  EXPECT_EQ(scott_deviation(Values(1000000, 0.5), 1, 0.5), 1e-3);
}

TEST(Parzen, DensityIsTheFormula) {
  const Space space = mixed_space();
  const Estimate estimate = some_estimate(space);
  const auto unit = [](double lr) { return std::log10(lr / 1e-4) / 3; };
  const double lr_deviation = scott_deviation(Values{unit(1e-3), unit(1e-2), unit(3e-3)}, 5, 0.5);
  const double momentum_deviation = scott_deviation(Values{0.25, 0.5}, 5, 0.5);
  // A whole number k has [k - 0.5, k + 0.5] in the scale; 1 to 4 have [0.5, 4.5].
  const auto place = [](double k) { return std::log(k / 0.5) / std::log(9); };
  const auto share = [](double k) { return std::log((k + 0.5) / (k - 0.5)) / std::log(9); };
  const double layers_deviation = std::max(1.0 / 4, scott_deviation(Values{place(2), place(4), place(2)}, 5, 0.5));
  const double batch_deviation = std::max(1.0 / 3, scott_deviation(Values{1.0 / 6, 0.5, 5.0 / 6}, 5, 0.5));
  const auto layers = [&](double k, double c) {
    double sum = 0;
    for (int i = 1; i <= 4; ++i) sum += share(i) * normal(place(i), place(c), layers_deviation);
    return 0.9 * share(k) * normal(place(k), place(c), layers_deviation) / sum + 0.1 * share(k);
  };
  const auto batch = [&](double k, double c) {
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += normal(i / 3.0, c / 3, batch_deviation);
    return 0.9 * normal(k / 3, c / 3, batch_deviation) / sum + 0.1 / 3;
  };
  const auto optimizer = [](double k, double c) { return 0.9 * (k == c ? 5.0 / 6 : 1.0 / 6) + 0.05; };  // N + 2 of N + 1 + K, and 1
  const auto expected = [&](const Values& x) {
    double sum = 1.0 / 4 * share(x[1]) / 3 / 2;
    const double weights[] = {1.5 / 4, 1.0 / 4, 0.5 / 4};
    for (size_t i = 0; i < 3; ++i) {
      const Values& c = estimate.values_of_centres[i];
      double product = weights[i] * cut_normal(unit(x[0]), unit(c[0]), lr_deviation) * layers(x[1], c[1]) * batch(x[2], c[2]) * optimizer(x[3], c[3]);
      if (!std::isnan(x[4]) && !std::isnan(c[4])) product *= cut_normal(x[4], c[4], momentum_deviation);
      sum += product;
    }
    return std::log(sum);
  };
  for (const Values& x : {Values{1e-3, 2, 0, 0, 0.25}, Values{5e-2, 1, 2, 0, 0.9}, Values{1e-2, 3, 1, 1, none}, Values{1e-4, 4, 0, 1, none}}) {
    EXPECT_NEAR(estimate.log_density(x), expected(x), 1e-8);  // accuracy of NormalTail
  }
}

TEST(Parzen, DensityIsOneInSum) {
  const Space space = mixed_space();
  const Estimate estimate = some_estimate(space);
  constexpr int cells = 60;  // midpoint rule; kernels have a width of at least a tenth, so errors are below 1e-3
  double sum = 0;
  Values x(5, none);
  const auto add = [&](double volume) { sum += volume * std::exp(estimate.density->log_density(x)); };
  for (int lr = 0; lr < cells; ++lr) {
    x[0] = (lr + 0.5) / cells;
    for (x[1] = 0; x[1] < 4; ++x[1]) {
      for (x[2] = 0; x[2] < 3; ++x[2]) {
        x[3] = 1;
        x[4] = none;
        add(1.0 / cells);
        x[3] = 0;
        for (int momentum = 0; momentum < cells; ++momentum) {
          x[4] = (momentum + 0.5) / cells;
          add(1.0 / cells / cells);
        }
      }
    }
  }
  EXPECT_NEAR(sum, 1, 2e-3);
}

TEST(Parzen, WhatIsDrawnHasTheDensity) {
  const Space space = mixed_space();
  const Estimate estimate = some_estimate(space);
  constexpr int draws = 40000;
  constexpr int bins = 5;
  std::map<Values, double> seen;  // by layers, batch, optimizer, and bins of lr and momentum
  CounterRng random(1);
  for (int i = 0; i < draws; ++i) {
    const Values values = estimate.density->sample(random);
    ASSERT_TRUE(space.contains(values));
    const Values x = estimate.axes.coordinates_of(values);
    const auto bin = [](double position) { return std::min(std::floor(position * bins), bins - 1.0); };
    ++seen[{bin(x[0]), x[1], x[2], x[3], std::isnan(x[4]) ? -1.0 : bin(x[4])}];
  }
  constexpr int fine = 8;  // midpoints per bin
  const auto probability = [&](const Values& cell) {
    double sum = 0;
    Values x(cell.begin(), cell.end());
    for (int i = 0; i < fine; ++i) {
      x[0] = (cell[0] + (i + 0.5) / fine) / bins;
      for (int k = 0; k < (cell[4] < 0 ? 1 : fine); ++k) {
        x[4] = cell[4] < 0 ? none : (cell[4] + (k + 0.5) / fine) / bins;
        sum += std::exp(estimate.density->log_density(x)) / (bins * fine) / (cell[4] < 0 ? 1 : bins * fine);
      }
    }
    return sum;
  };
  double chi_square = 0;
  double degrees = -1;
  for (int lr = 0; lr < bins; ++lr) {
    for (int layers = 0; layers < 4; ++layers) {
      for (int batch = 0; batch < 3; ++batch) {
        for (int momentum = -1; momentum < bins; ++momentum) {
          const Values cell{static_cast<double>(lr), static_cast<double>(layers), static_cast<double>(batch), momentum < 0 ? 1.0 : 0.0,
                            static_cast<double>(momentum)};
          const double expected = draws * probability(cell);
          chi_square += (seen[cell] - expected) * (seen[cell] - expected) / expected;
          ++degrees;
        }
      }
    }
  }
  EXPECT_NEAR(chi_square, degrees, 4 * std::sqrt(2 * degrees));
}

TEST(Parzen, WhatExistsOnlyInACentreHasNoInfluence) {
  const Space space = mixed_space();
  const Values adam{1e-2, 4, 1, 1, none};
  const Estimate one(space, {{1e-3, 2, 0, 0, 0.1}, adam}, Values{1, 1}, 0.5, 1);
  const Estimate other(space, {{1e-3, 2, 0, 0, 0.9}, adam}, Values{1, 1}, 0.5, 1);
  EXPECT_EQ(one.log_density(adam), other.log_density(adam));
  EXPECT_GT(one.log_density({1e-3, 2, 0, 0, 0.1}), other.log_density({1e-3, 2, 0, 0, 0.1}) + 1);
}

TEST(NormalTail, IsAsExactAsItSays) {
  const NormalTail tail;
  for (double z = 0; z < 12; z += 0.001) ASSERT_NEAR(tail(z), std::erfc(z / std::numbers::sqrt2) / 2, 3e-9) << z;
}

TEST(KernelAxes, AreFewValuesOrAContinuum) {
  const Space space{integer("one", 7, 7),   integer("few", -3, 60),
                    integer("many", 0, 64), real("steps", 0.1, 1, Scale::linear, 0.3),
                    real("any", 2, 3),      categorical("word", {"a", "b", "c"})};
  const KernelAxes axes(space);
  std::vector<size_t> counts;
  for (size_t i = 0; i < axes.size(); ++i) {
    counts.push_back(axes[i].places.size());
    double sum = 0;
    for (const double share : axes[i].shares) sum += share;
    if (!axes[i].is_continuum()) {
      EXPECT_NEAR(sum, 1, 1e-12) << i;
    }
    EXPECT_EQ(axes[i].ordered, i != 5);
  }
  EXPECT_EQ(counts, (std::vector<size_t>{1, 64, 0, 4, 0, 3}));
  for (const Values& values : {Values{7, -3, 0, 0.1, 2, 0}, Values{7, 60, 64, 1, 3, 2}, Values{7, 12, 33, 0.7, 2.5, 1}}) {
    const Values coordinates = axes.coordinates_of(values);
    for (size_t i = 0; i < axes.size(); ++i) EXPECT_NEAR(axes.value_of(i, coordinates[i]), values[i], 1e-12) << i;
  }
}

}  // namespace parzen_test
}  // namespace tw::search
