// SPDX-License-Identifier: Apache-2.0
// Sets of configurations, compared by same_values().
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <tw/evolution/space.hpp>
#include <unordered_set>
#include <vector>

namespace tw::search {

struct ValuesHash {
  size_t operator()(const std::vector<double>& values) const noexcept {
    uint64_t hash = values.size();
    for (const double value : values) {
      // All NaN hash alike, and so do 0 and -0. Ref: the finalizer of SplitMix64, Steele, Lea & Flood 2014.
      hash += std::isnan(value) ? 1 : std::bit_cast<uint64_t>(value + 0.0) + 0x9e3779b97f4a7c15;
      hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9;
      hash = (hash ^ hash >> 27) * 0x94d049bb133111eb;
      hash ^= hash >> 31;
    }
    return hash;
  }
};

struct ValuesEqual {
  bool operator()(const std::vector<double>& a, const std::vector<double>& b) const { return same_values(a, b); }
};

using ValuesSet = std::unordered_set<std::vector<double>, ValuesHash, ValuesEqual>;

}  // namespace tw::search
