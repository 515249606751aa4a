// SPDX-License-Identifier: Apache-2.0
#include "functional_anova.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <tw/base/random.hpp>

namespace tw::search {
namespace {

constexpr size_t max_paired = 32;  // dimensions: 496 pairs
constexpr size_t strata_of_variance = 4096;

double variance_of(const std::vector<double>& numbers) {
  const auto n = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / n;
  return std::transform_reduce(numbers.begin(), numbers.end(), 0.0, std::plus(), [&](double each) { return (each - mean) * (each - mean); }) / n;
}

size_t dimensions_of(const RandomForest& forest) { return forest.trees().front().leaves().front().box.size(); }

/// The variance at points of a Latin hypercube, with one point in each stratum of each dimension. Ref: McKay, Beckman & Conover 1979.
double variance_of(const RandomForest& forest) {
  std::vector<std::vector<double>> positions(strata_of_variance, std::vector<double>(dimensions_of(forest)));
  for (size_t i = 0; i < dimensions_of(forest); ++i) {
    const std::vector<int64_t> strata = random_permutation(strata_of_variance, /*seed=*/0, i);
    for (size_t k = 0; k < strata_of_variance; ++k) positions[k][i] = (static_cast<double>(strata[k]) + 0.5) / strata_of_variance;
  }
  std::vector<double> values(strata_of_variance);
  std::ranges::transform(positions, values.begin(), [&](const auto& position) { return forest.at(position); });
  return variance_of(values);
}

/// The dimensions that are cut in the largest part of the cube's volume, ascending.
std::vector<size_t> dimensions_to_pair(const RandomForest& forest) {
  std::vector<double> parts(dimensions_of(forest));
  for (const RegressionTree& tree : forest.trees()) {
    for (const Leaf& leaf : tree.leaves()) {
      for (size_t i = 0; i < parts.size(); ++i) parts[i] += leaf.box[i].length() < 1 ? leaf.volume : 0;
    }
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t i) { return parts[i]; });
  order.resize(std::min(order.size(), max_paired));
  std::ranges::sort(order);
  return order;
}

}  // namespace

Marginal::Marginal(const RandomForest& forest, size_t dimension) : columns_(1), values_(cells) {
  for (const RegressionTree& tree : forest.trees()) {
    for (const Leaf& leaf : tree.leaves()) {
      const Interval& x = leaf.box[dimension];
      add(cells_in(x), {0, 1}, leaf.value * leaf.volume / x.length() / static_cast<double>(forest.trees().size()));
    }
  }
  sum_up();
}

Marginal::Marginal(const RandomForest& forest, size_t first, size_t second) : columns_(cells), values_(cells * cells) {
  for (const RegressionTree& tree : forest.trees()) {
    for (const Leaf& leaf : tree.leaves()) {
      const Interval& x = leaf.box[first];
      const Interval& y = leaf.box[second];
      add(cells_in(x), cells_in(y), leaf.value * leaf.volume / (x.length() * y.length()) / static_cast<double>(forest.trees().size()));
    }
  }
  sum_up();
}

/// The cells whose centres lie in `interval`, including its low end.
Marginal::Cells Marginal::cells_in(const Interval& interval) {
  const auto first = [](double edge) { return static_cast<size_t>(std::ceil(std::clamp(edge, 0.0, 1.0) * cells - 0.5)); };
  return {first(interval.low), first(interval.high)};
}

/// Adds `amount` to a rectangle of cells. Values hold differences between neighbouring cells until sum_up(), so only four numbers change.
void Marginal::add(const Cells& xs, const Cells& ys, double amount) {
  const auto to = [&](size_t x, size_t y, double difference) {
    if (x < cells && y < columns_) values_[x * columns_ + y] += difference;
  };
  to(xs.begin, ys.begin, amount);
  to(xs.begin, ys.end, -amount);
  to(xs.end, ys.begin, -amount);
  to(xs.end, ys.end, amount);
}

void Marginal::sum_up() {
  for (size_t x = 0; x < cells; ++x) {
    for (size_t y = 1; y < columns_; ++y) values_[x * columns_ + y] += values_[x * columns_ + y - 1];
  }
  for (size_t i = columns_; i < values_.size(); ++i) values_[i] += values_[i - columns_];
}

double Marginal::at(double x, double y) const {
  const auto cell = [](double coordinate, size_t count) {
    return std::min(static_cast<size_t>(std::clamp(coordinate, 0.0, 1.0) * static_cast<double>(count)), count - 1);
  };
  return values_[cell(x, cells) * columns_ + cell(y, columns_)];
}

double Marginal::variance() const { return variance_of(values_); }

VarianceShares functional_anova(const RandomForest& forest) {
  const double total = variance_of(forest);
  if (!(total > 0)) return {};
  VarianceShares shares;
  for (size_t i = 0; i < dimensions_of(forest); ++i) shares.alone.push_back(Marginal(forest, i).variance() / total);
  const std::vector<size_t> paired = dimensions_to_pair(forest);
  for (size_t i = 0; i < paired.size(); ++i) {
    for (size_t k = i + 1; k < paired.size(); ++k) {
      const double together = Marginal(forest, paired[i], paired[k]).variance() / total;
      shares.pairs.push_back({paired[i], paired[k], std::max(0.0, together - shares.alone[paired[i]] - shares.alone[paired[k]])});
    }
  }
  std::ranges::stable_sort(shares.pairs, std::ranges::greater(), &PairShare::share);
  return shares;
}

}  // namespace tw::search
