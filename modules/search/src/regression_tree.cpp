// SPDX-License-Identifier: Apache-2.0
#include "regression_tree.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tw::search {
namespace {

constexpr size_t max_tried = 16;
constexpr size_t rows_of_leaf = 3;  // minimum

/// Random dimensions to try.
std::vector<size_t> tried_dimensions(size_t dimensions, CounterRng& random) {
  std::vector<size_t> all(dimensions);
  std::iota(all.begin(), all.end(), size_t{0});
  const size_t count = std::min(max_tried, (5 * dimensions + 5) / 6);
  for (size_t i = 0; i < count; ++i) std::swap(all[i], all[i + random.below(static_cast<uint32_t>(dimensions - i))]);
  all.resize(count);
  return all;
}

double mean_of(const Samples& samples, const std::vector<size_t>& rows) {
  double sum = 0;
  for (const size_t row : rows) sum += samples.responses[row];
  return sum / static_cast<double>(rows.size());
}

}  // namespace

RegressionTree::RegressionTree(const Samples& samples, std::vector<size_t> rows, CounterRng& random) {
  grow(samples, std::move(rows), {.box = std::vector<Interval>(samples.positions.front().size())}, random);
}

int RegressionTree::grow(const Samples& samples, std::vector<size_t> rows, const Leaf& part, CounterRng& random) {
  const auto node = static_cast<int>(nodes_.size());
  nodes_.push_back({.cut = best_cut(samples, rows, random)});
  const Cut cut = nodes_.back().cut;
  if (cut.gain <= 0) {
    nodes_.back().leaf = leaves_.size();
    leaves_.push_back(part);
    leaves_.back().value = mean_of(samples, rows);
    return node;
  }
  const auto middle = std::ranges::partition(rows, [&](size_t row) { return samples.positions[row][cut.dimension] < cut.threshold; }).begin();
  Leaf below = part;
  Leaf above = part;
  below.box[cut.dimension].high = above.box[cut.dimension].low = cut.threshold;
  for (Leaf* half : {&below, &above}) half->volume *= half->box[cut.dimension].length() / part.box[cut.dimension].length();
  const int below_node = grow(samples, {rows.begin(), middle}, below, random);
  const int above_node = grow(samples, {middle, rows.end()}, above, random);
  nodes_[static_cast<size_t>(node)].below = below_node;
  nodes_[static_cast<size_t>(node)].above = above_node;
  return node;
}

/// With n responses of sum s, the first k of which have the sum s_k, a cut after these gains s_k^2 / k + (s - s_k)^2 / (n - k) - s^2 / n.
RegressionTree::Cut RegressionTree::best_cut(const Samples& samples, const std::vector<size_t>& rows, CounterRng& random) {
  Cut best;
  if (rows.size() < 2 * rows_of_leaf) return best;
  const auto n = static_cast<double>(rows.size());
  const double mean = mean_of(samples, rows);
  double total = 0;
  for (const size_t row : rows) total += (samples.responses[row] - mean) * (samples.responses[row] - mean);
  best.gain = 1e-12 * total;  // smaller gains are rounding errors
  bool found = false;
  std::vector<std::pair<double, double>> along;  // coordinate, response
  for (const size_t dimension : tried_dimensions(samples.positions.front().size(), random)) {
    along.clear();
    for (const size_t row : rows) along.emplace_back(samples.positions[row][dimension], samples.responses[row] - mean);
    if (std::ranges::any_of(along, [](const auto& each) { return std::isnan(each.first); })) continue;
    std::ranges::sort(along, {}, [](const auto& each) { return each.first; });
    double sum = 0;
    for (size_t k = 1; k + rows_of_leaf <= along.size(); ++k) {
      sum += along[k - 1].second;
      if (k < rows_of_leaf || along[k - 1].first == along[k].first) continue;
      const auto count = static_cast<double>(k);
      const double gain = sum * sum / count + sum * sum / (n - count);  // responses are relative to their mean, so s = 0
      if (gain <= best.gain) continue;
      best = {.dimension = dimension, .threshold = std::midpoint(along[k - 1].first, along[k].first), .gain = gain};
      found = true;
    }
  }
  return found ? best : Cut();
}

double RegressionTree::at(const std::vector<double>& position) const {
  const Node* node = &nodes_.front();
  while (node->below >= 0) node = &nodes_[static_cast<size_t>(position[node->cut.dimension] < node->cut.threshold ? node->below : node->above)];
  return leaves_[node->leaf].value;
}

}  // namespace tw::search
