// SPDX-License-Identifier: Apache-2.0
#include <tw/base/suggest.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tw/base/concat.hpp>
#include <utility>
#include <vector>

namespace tw {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // row[j]: distance between the first i characters of a and the first j of b
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  size_t least = std::numeric_limits<size_t>::max();
  for (const auto& candidate : candidates) {
    if (const size_t distance = edit_distance(name, candidate); distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates, std::string_view quote) {
  return candidates.empty() ? "" : concat("; did you mean ", quote, nearest_name(name, candidates), quote, '?');
}

std::string unknown_text(std::string_view name, std::span<const std::string> choices) {
  return concat("is \"", name, "\", but must be one of \"", joined(choices, "\", \""), '"');
}

}  // namespace tw
