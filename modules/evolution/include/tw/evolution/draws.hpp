// SPDX-License-Identifier: Apache-2.0
// Random numbers from the distributions that propagators need.
#pragma once
#include <cstddef>
#include <cstdint>
#include <tw/base/random.hpp>

namespace tw::search {

/// Uniform between `low` and `high`; rounding may reach either.
inline double uniform(CounterRng& random, double low, double high) noexcept { return low + (high - low) * uniform(random); }

/// True with this probability.
inline bool bernoulli(CounterRng& random, double probability) noexcept { return uniform(random) < probability; }

/// Uniform in 0 to n - 1. @param n at least 1, below 2^32
inline size_t index_below(CounterRng& random, size_t n) noexcept { return random.below(static_cast<uint32_t>(n)); }

}  // namespace tw::search
