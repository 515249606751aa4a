// SPDX-License-Identifier: Apache-2.0
#include "loss_forest.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tw/base/random.hpp>

#include "ranks.hpp"

namespace tw::search {
namespace {

constexpr size_t fewest_trials = 20;
constexpr size_t max_trials = 1000;
constexpr uint64_t forest_seed = 0;

/// The places of choices, sorted by mean response. Choices without a trial count as average.
std::vector<double> places_by_mean(size_t choices, size_t parameter, const std::vector<const LedgerEntry*>& trials,
                                   const std::vector<double>& responses) {
  std::vector<double> sums(choices);
  std::vector<double> counts(choices);
  for (size_t i = 0; i < trials.size(); ++i) {
    const double value = trials[i]->individual.values[parameter];
    if (std::isnan(value)) continue;
    sums[static_cast<size_t>(value)] += responses[i];
    counts[static_cast<size_t>(value)] += 1;
  }
  const double average = std::accumulate(responses.begin(), responses.end(), 0.0) / static_cast<double>(responses.size());
  std::vector<size_t> order(choices);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t choice) { return counts[choice] > 0 ? sums[choice] / counts[choice] : average; });
  std::vector<double> places(choices);
  for (size_t i = 0; i < choices; ++i) places[order[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(choices);
  return places;
}

}  // namespace

ForestCube::ForestCube(const Space& space, const std::vector<const LedgerEntry*>& trials, const std::vector<double>& responses)
    : space_(&space), places_(space.size()) {
  for (size_t i = 0; i < space.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    if (parameter.kind == Parameter::Kind::categorical) places_[i] = places_by_mean(parameter.choices.size(), i, trials, responses);
  }
}

double ForestCube::coordinate(size_t parameter, double value) const {
  if (std::isnan(value)) return value;
  return places_[parameter].empty() ? space_->to_unit(parameter, value) : places_[parameter][static_cast<size_t>(value)];
}

std::vector<double> ForestCube::position(const std::vector<double>& values) const {
  std::vector<double> position;
  for (size_t i = 0; i < values.size(); ++i) position.push_back(coordinate(i, values[i]));
  return position;
}

std::optional<LossForest> loss_forest_of(const std::vector<const LedgerEntry*>& ranked, const Space& space) {
  const size_t all = ranked.size();
  if (all < fewest_trials || ranked.front()->individual.loss == ranked.back()->individual.loss) return std::nullopt;
  std::vector<double> losses;
  for (const LedgerEntry* entry : ranked) losses.push_back(entry->individual.loss);
  const std::vector<double> ranks = ranks_of(losses);
  std::vector<int64_t> drawn = random_permutation(static_cast<int64_t>(all), forest_seed, 0);
  drawn.resize(std::min(all, max_trials));
  std::vector<const LedgerEntry*> trials;
  Samples samples;
  for (const int64_t rank : drawn) {
    trials.push_back(ranked[static_cast<size_t>(rank)]);
    samples.responses.push_back(ranks[static_cast<size_t>(rank)] / static_cast<double>(all - 1));
  }
  const ForestCube cube(space, trials, samples.responses);
  for (const LedgerEntry* trial : trials) samples.positions.push_back(cube.position(trial->individual.values));
  LossForest forest{.cube = cube, .forest = RandomForest(samples, forest_seed), .trials = trials.size()};
  forest.shares = functional_anova(forest.forest);
  if (forest.shares.alone.empty()) return std::nullopt;
  return forest;
}

}  // namespace tw::search
