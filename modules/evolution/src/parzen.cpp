// SPDX-License-Identifier: Apache-2.0
#include "parzen.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <tw/evolution/draws.hpp>

#include "normal_tail.hpp"

namespace tw::search {
namespace {

constexpr double min_kernel_deviation = 1e-3;  // as a share of the range: repeated results must not shrink a kernel to a point
constexpr double anywhere = 0.1;               // uniform share of each kernel over a few values, so that one parameter may change while others stay

/// Coordinates of the centres on an axis; centres without this axis are left out.
std::vector<double> of_axis(const Parzen::Centres& centres, size_t axis) {
  std::vector<double> all;
  all.reserve(centres.size());
  for (const std::vector<double>* centre : centres) {
    if (!std::isnan((*centre)[axis])) all.push_back((*centre)[axis]);
  }
  return all;
}

/// Values where the kernels are centred; `count`: uniform.
std::vector<uint32_t> numbers_of(const Parzen::Centres& centres, size_t axis, size_t count) {
  std::vector<uint32_t> numbers(centres.size() + 1, static_cast<uint32_t>(count));
  for (size_t i = 0; i < centres.size(); ++i) {
    if (!std::isnan((*centres[i])[axis])) numbers[i] = static_cast<uint32_t>((*centres[i])[axis]);
  }
  return numbers;
}

}  // namespace

double scott_deviation(std::span<const double> positions, size_t dimensions, double bandwidth) {
  const auto n = static_cast<double>(positions.size());
  double mean = 0.5;
  for (const double x : positions) mean += x;
  mean /= n + 1;
  double squares = 1.0 / 12 + (0.5 - mean) * (0.5 - mean);
  for (const double x : positions) squares += (x - mean) * (x - mean);
  const double deviation = std::sqrt(squares / (n + 1)) * std::pow(std::max(n, 1.0), -1 / (static_cast<double>(dimensions) + 4));
  return std::clamp(bandwidth * deviation, min_kernel_deviation, 1.0);
}

void Parzen::fit(const Centres& centres, std::span<const double> weights, double bandwidth, double uniform) {
  cumulative_.assign(weights.begin(), weights.end());
  cumulative_.push_back(uniform);
  const double sum = std::accumulate(cumulative_.begin(), cumulative_.end(), 0.0);
  log_weights_.clear();
  for (const double weight : cumulative_) log_weights_.push_back(std::log(weight / sum));
  std::partial_sum(cumulative_.begin(), cumulative_.end(), cumulative_.begin());
  columns_.resize(axes_.size());
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axes_[axis].is_continuum()) {
      fit_continuum(columns_[axis], axis, centres, bandwidth);
    } else {
      columns_[axis] = axes_[axis].ordered ? values(axis, centres, bandwidth) : choices(axis, centres);
    }
  }
}

void Parzen::fit_continuum(Column& column, size_t axis, const Centres& centres, double bandwidth) const {
  static const NormalTail tail;
  const size_t n = centres.size();
  column.centre.assign(n + 1, 0.5);
  column.inverse.assign(n + 1, 0);
  column.constant.assign(n + 1, 0);
  const double deviation = scott_deviation(of_axis(centres, axis), axes_.size(), bandwidth);
  const double inverse = 1 / deviation;
  const double whole = -std::log(deviation) - std::log(2 * std::numbers::pi) / 2;
  for (size_t i = 0; i < n; ++i) {
    const double c = (*centres[i])[axis];
    if (std::isnan(c)) continue;
    column.centre[i] = c;
    column.inverse[i] = inverse;
    column.constant[i] = whole - std::log(1 - tail(c * inverse) - tail((1 - c) * inverse));
  }
}

Parzen::Column Parzen::values(size_t axis, const Centres& centres, double bandwidth) const {
  const KernelAxis& a = axes_[axis];
  const size_t count = a.places.size();
  Column column{.number = numbers_of(centres, axis, count), .table = std::vector<double>(count * (count + 1))};
  std::vector<double> positions = of_axis(centres, axis);
  for (double& position : positions) position = a.places[static_cast<size_t>(position)];
  const double deviation = std::max(scott_deviation(positions, axes_.size(), bandwidth), 1 / static_cast<double>(count));
  const auto kernel = [&](size_t value, size_t number) {
    if (number == count) return a.shares[value];
    const double z = (a.places[value] - a.places[number]) / deviation;
    return a.shares[value] * std::exp(-z * z / 2);
  };
  for (size_t number = 0; number <= count; ++number) {
    double sum = 0;
    for (size_t value = 0; value < count; ++value) sum += kernel(value, number);
    for (size_t value = 0; value < count; ++value) {
      column.table[value * (count + 1) + number] = std::log((1 - anywhere) * kernel(value, number) / sum + anywhere * a.shares[value]);
    }
  }
  return column;
}

/// Without a table, because there may be many choices.
Parzen::Column Parzen::choices(size_t axis, const Centres& centres) const {
  const size_t count = axes_[axis].places.size();
  const auto seen = static_cast<double>(of_axis(centres, axis).size() + 1);
  const auto k = static_cast<double>(count);
  return {.number = numbers_of(centres, axis, count),
          .same = std::log((1 - anywhere) * (1 + seen) / (k + seen) + anywhere / k),
          .other = std::log((1 - anywhere) / (k + seen) + anywhere / k)};
}

double Parzen::log_density(const std::vector<double>& x) const {
  std::vector<double> logs = log_weights_;
  for (size_t axis = 0; axis < x.size(); ++axis) {
    if (std::isnan(x[axis])) continue;
    const Column& column = columns_[axis];
    if (axes_[axis].is_continuum()) {
      for (size_t i = 0; i < logs.size(); ++i) {
        const double z = (x[axis] - column.centre[i]) * column.inverse[i];
        logs[i] += column.constant[i] - z * z / 2;
      }
    } else if (!axes_[axis].ordered) {
      const auto count = axes_[axis].places.size();
      const auto choice = static_cast<uint32_t>(x[axis]);
      const double anyone = -std::log(static_cast<double>(count));
      for (size_t i = 0; i < logs.size(); ++i) {
        const uint32_t number = column.number[i];
        logs[i] += number == count ? anyone : number == choice ? column.same : column.other;
      }
    } else {
      const double* row = &column.table[static_cast<size_t>(x[axis]) * (axes_[axis].places.size() + 1)];
      for (size_t i = 0; i < logs.size(); ++i) logs[i] += row[column.number[i]];
    }
  }
  const Eigen::Map<const Eigen::ArrayXd> all(logs.data(), static_cast<Eigen::Index>(logs.size()));
  const double most = all.maxCoeff();
  return most + std::log((all - most).exp().sum());
}

std::vector<double> Parzen::sample(CounterRng& random) const {
  const double at = uniform(random) * cumulative_.back();
  const auto above = std::ranges::upper_bound(cumulative_.begin(), cumulative_.end() - 1, at);  // rounding may reach the end
  const auto component = static_cast<size_t>(above - cumulative_.begin());
  std::vector<double> values(axes_.size(), std::numeric_limits<double>::quiet_NaN());
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    if (axes_.space().exists(axis, values)) values[axis] = axes_.value_of(axis, draw(axis, component, random));
  }
  return values;
}

double Parzen::draw(size_t axis, size_t component, CounterRng& random) const {
  const Column& column = columns_[axis];
  if (axes_[axis].is_continuum()) {
    if (column.inverse[component] == 0) return uniform(random);
    for (;;) {  // the centre is inside, and the deviation at most the range: a third of the samples or more are inside
      const double x = column.centre[component] + normal(random) / column.inverse[component];
      if (x >= 0 && x <= 1) return x;
    }
  }
  const size_t count = axes_[axis].places.size();
  if (!axes_[axis].ordered) return draw_choice(column, count, column.number[component], random);
  double rest = uniform(random);
  for (size_t value = 0; value + 1 < count; ++value) {
    rest -= std::exp(column.table[value * (count + 1) + column.number[component]]);
    if (rest < 0) return static_cast<double>(value);
  }
  return static_cast<double>(count - 1);
}

/// Inverts the cumulative distribution: the choices before `number`, `number` itself, and the choices after it.
double Parzen::draw_choice(const Column& column, size_t count, size_t number, CounterRng& random) const {
  const double u = uniform(random);
  const double last = static_cast<double>(count) - 1;
  if (number == count) return std::min(std::floor(u * static_cast<double>(count)), last);
  const auto middle = static_cast<double>(number);
  const double other = std::exp(column.other);
  const double before = middle * other;
  if (u < before) return std::min(std::floor(u / other), middle);
  const double behind = u - before - std::exp(column.same);
  return behind < 0 ? middle : std::min(middle + 1 + std::floor(behind / other), last);
}

}  // namespace tw::search
