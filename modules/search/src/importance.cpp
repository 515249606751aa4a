// SPDX-License-Identifier: Apache-2.0
#include "importance.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "ranks.hpp"

namespace tw::search {
namespace {

constexpr size_t min_trials = 20;
constexpr size_t max_bins = 16;
constexpr size_t trials_of_bin = 5;  // minimum

/// The bin of each value; -1 for NaN.
std::vector<int> bins_of(const Parameter& parameter, const std::vector<double>& values) {
  const size_t most = std::clamp<size_t>(values.size() / trials_of_bin, 2, max_bins);
  std::vector<int> bins(values.size(), -1);
  std::vector<double> present;
  std::ranges::copy_if(values, std::back_inserter(present), [](double value) { return !std::isnan(value); });
  const bool is_bin = parameter.kind == Parameter::Kind::categorical || (parameter.count() > 0 && parameter.count() <= static_cast<int64_t>(most));
  const std::vector<double> ranks = ranks_of(present);
  const double width =
      is_bin ? 0.5 : static_cast<double>(present.size()) / static_cast<double>(most);  // ranks of unequal values are half apart or more
  for (size_t i = 0, k = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) bins[i] = static_cast<int>(ranks[k++] / width);
  }
  return bins;
}

double explained(const std::vector<int>& bins, const std::vector<double>& numbers) {
  struct Sum {
    double count = 0;
    double sum = 0;
  };
  std::map<int, Sum> sums;
  const auto n = static_cast<double>(numbers.size());
  const double mean = std::accumulate(numbers.begin(), numbers.end(), 0.0) / n;
  double total = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    Sum& of = sums[bins[i]];
    of.count += 1;
    of.sum += numbers[i] - mean;
    total += (numbers[i] - mean) * (numbers[i] - mean);
  }
  double between = 0;
  for (const auto& [bin, of] : sums) between += of.sum * of.sum / of.count;
  const auto groups = static_cast<double>(sums.size());
  if (groups >= n) return 0;
  const double by_chance = (groups - 1) * (total - between) / (n - groups);
  return std::max(0.0, (between - by_chance) / total);
}

}  // namespace

std::vector<double> importance(const Ledger& ledger, const Space& space) {
  std::vector<const Individual*> counting;
  std::vector<double> losses;
  for (const LedgerEntry& entry : ledger.trials) {
    if (!entry.individual.has_comparable_loss()) continue;
    counting.push_back(&entry.individual);
    losses.push_back(entry.individual.loss);
  }
  if (losses.size() < min_trials || std::ranges::min(losses) == std::ranges::max(losses)) return {};
  const std::vector<double> ranks = ranks_of(losses);
  std::vector<double> shares;
  for (size_t i = 0; i < space.size(); ++i) {
    std::vector<double> values;
    for (const Individual* each : counting) values.push_back(each->values[i]);
    shares.push_back(explained(bins_of(space.parameters()[i], values), ranks));
  }
  return shares;
}

}  // namespace tw::search
