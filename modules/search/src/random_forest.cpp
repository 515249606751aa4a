// SPDX-License-Identifier: Apache-2.0
#include "random_forest.hpp"

#include <algorithm>
#include <numeric>

namespace tw::search {
namespace {

constexpr size_t trees_of_forest = 32;

/// `count` of `count` rows, drawn with replacement (the bootstrap of Efron 1979).
std::vector<size_t> resampled(size_t count, CounterRng& random) {
  std::vector<size_t> rows(count);
  std::ranges::generate(rows, [&] { return size_t{random.below(static_cast<uint32_t>(count))}; });
  return rows;
}

}  // namespace

RandomForest::RandomForest(const Samples& samples, uint64_t seed) {
  struct Votes {
    double sum = 0;
    double count = 0;
  };
  const size_t count = samples.responses.size();
  std::vector<Votes> unseen(count);
  for (size_t i = 0; i < trees_of_forest; ++i) {
    CounterRng random(seed, i);
    const std::vector<size_t> rows = resampled(count, random);
    trees_.emplace_back(samples, rows, random);
    std::vector<bool> seen(count);
    for (const size_t row : rows) seen[row] = true;
    for (size_t row = 0; row < count; ++row) {
      if (seen[row]) continue;
      unseen[row].sum += trees_.back().at(samples.positions[row]);
      unseen[row].count += 1;
    }
  }
  const double mean = std::accumulate(samples.responses.begin(), samples.responses.end(), 0.0) / static_cast<double>(count);
  double error = 0;
  double total = 0;
  for (size_t row = 0; row < count; ++row) {
    const double response = samples.responses[row];
    if (unseen[row].count == 0) continue;
    const double missed = response - unseen[row].sum / unseen[row].count;
    error += missed * missed;
    total += (response - mean) * (response - mean);
  }
  explained_ = 1 - error / total;
}

double RandomForest::at(const std::vector<double>& position) const {
  double sum = 0;
  for (const RegressionTree& tree : trees_) sum += tree.at(position);
  return sum / static_cast<double>(trees_.size());
}

}  // namespace tw::search
