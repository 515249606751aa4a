// SPDX-License-Identifier: Apache-2.0
#include "graph_layers.hpp"

#include <algorithm>
#include <limits>
#include <tw/base/numbers.hpp>

#include "operator_order.hpp"

namespace tw::pipeline {
namespace {

constexpr int unknown = std::numeric_limits<int>::max();

/// Depth of each operator; at least 1 for operators that depend on the batch.
std::vector<int> depths_of(const Profile& profile) {
  const std::vector<bool> sees = sees_batch(profile);
  std::vector<int> depths(profile.operators.size(), unknown);
  for (size_t i = 0; i < depths.size(); ++i) {
    if (!sees[i]) continue;
    depths[i] = 1;
    for (const int input : profile.operators[i].inputs) {
      if (input >= 0 && sees[at(input)]) depths[i] = std::max(depths[i], depths[at(input)] + 1);
    }
  }
  for (size_t i = depths.size(); i-- > 0;) {
    if (depths[i] == unknown) depths[i] = 0;  // no operator uses it
    for (const int input : profile.operators[i].inputs) {
      if (input >= 0 && !sees[at(input)]) depths[at(input)] = std::min(depths[at(input)], depths[i] - 1);
    }
  }
  return depths;
}

}  // namespace

std::vector<std::vector<int>> layers_of(const Profile& profile) {
  const std::vector<int> depths = depths_of(profile);
  if (depths.empty()) return {};
  const auto [first, last] = std::ranges::minmax(depths);
  std::vector<std::vector<int>> layers(at(last - first) + 1);
  for (size_t i = 0; i < depths.size(); ++i) layers[at(depths[i] - first)].push_back(static_cast<int>(i));
  // Sorted by the mean place of the inputs, so that few lines cross.
  std::vector<double> places(profile.operators.size(), 0);
  for (std::vector<int>& layer : layers) {
    const auto mean = [&](int op) {
      const std::vector<int>& inputs = profile.operators[at(op)].inputs;
      double sum = 0;
      for (const int input : inputs) sum += input < 0 ? 0 : places[at(input)];
      return inputs.empty() ? 0 : sum / static_cast<double>(inputs.size());
    };
    std::ranges::stable_sort(layer, {}, mean);
    for (size_t i = 0; i < layer.size(); ++i) places[at(layer[i])] = static_cast<double>(i) - static_cast<double>(layer.size() - 1) / 2;
  }
  return layers;
}

}  // namespace tw::pipeline
