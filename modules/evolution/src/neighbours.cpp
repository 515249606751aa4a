// SPDX-License-Identifier: Apache-2.0
#include "neighbours.hpp"

#include <cmath>
#include <numeric>
#include <tw/evolution/draws.hpp>
#include <utility>

namespace tw::search {
namespace {

std::vector<double> with_value(const Space& space, std::vector<double> values, size_t index, double value, CounterRng& random) {
  values[index] = value;
  for (size_t i = index + 1; i < values.size(); ++i) {
    if (std::isnan(values[i]) && space.exists(i, values)) values[i] = space.from_unit(i, uniform(random));
  }
  space.repair(values);
  return values;
}

}  // namespace

bool any_neighbour(const Space& space, const std::vector<double>& values, CounterRng& random,
                   const std::function<bool(std::vector<double> neighbour)>& takes) {
  std::vector<size_t> order(space.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = 0; i < order.size(); ++i) {
    std::swap(order[i], order[i + index_below(random, order.size() - i)]);
    const size_t index = order[i];
    const Parameter& p = space.parameters()[index];
    if (p.count() < 2 || std::isnan(values[index])) continue;
    const auto moved = [&](double value) {
      std::vector<double> neighbour = with_value(space, values, index, value, random);
      return !same_values(neighbour, values) && takes(std::move(neighbour));
    };
    if (p.kind == Parameter::Kind::categorical) {
      const size_t first = index_below(random, p.choices.size());
      for (size_t k = 0; k < p.choices.size(); ++k) {
        if (moved(static_cast<double>((first + k) % p.choices.size()))) return true;
      }
    } else {
      const double step = (p.step > 0 ? p.step : 1) * (bernoulli(random, 0.5) ? 1 : -1);
      if (moved(values[index] + step) || moved(values[index] - step)) return true;
    }
  }
  return false;
}

}  // namespace tw::search
