// SPDX-License-Identifier: Apache-2.0
// Random numbers from the distributions that propagators need.
#pragma once
#include <cmath>
#include <numbers>
#include <tw/base/random.hpp>

namespace tw::search {

/// Uniform in [0, 1), with 53 random bits.
inline double uniform(CounterRng& random) noexcept {
  const uint64_t high = random() >> 5;  // 27 bits
  const uint64_t low = random() >> 6;   // 26 bits
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

/// Uniform between `low` and `high`; rounding may reach either.
inline double uniform(CounterRng& random, double low, double high) noexcept { return low + (high - low) * uniform(random); }

/// True with this probability.
inline bool bernoulli(CounterRng& random, double probability) noexcept { return uniform(random) < probability; }

/// Uniform in 0 to n - 1. @param n at least 1, below 2^32
inline size_t index_below(CounterRng& random, size_t n) noexcept { return random.below(static_cast<uint32_t>(n)); }

/// Normal, mean 0 and deviation 1. Ref: Box & Muller 1958.
inline double normal(CounterRng& random) noexcept {
  const double radius = std::sqrt(-2 * std::log1p(-uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * uniform(random));
}

}  // namespace tw::search
