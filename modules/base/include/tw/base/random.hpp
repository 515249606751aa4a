// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace tw {

/// Counter-based random numbers: the i-th number of (seed, stream) is a pure function of (seed, stream, i), so that it
/// depends neither on the number of ranks nor on what was drawn before. Meets UniformRandomBitGenerator.
/// Ref: Salmon et al. 2011, Philox4x32-10.
class CounterRng {
 public:
  using result_type = uint32_t;
  explicit CounterRng(uint64_t seed, uint64_t stream = 0) noexcept : seed_(seed), stream_(stream) {}

  result_type operator()() noexcept;
  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return UINT32_MAX; }

  /// Uniform in [0, bound), without bias. Ref: Lemire 2019. @param bound 1 to 2^32 - 1.
  uint32_t below(uint32_t bound) noexcept;

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t block_ = 0;  // how many blocks of four have been made
  std::array<uint32_t, 4> numbers_{};
  int used_ = 4;
};

/// A seed for each stream of a seed; no pattern in the two makes two of them equal, but chance, once in 2^64 pairs. Ref: Philox, as CounterRng.
uint64_t derived_seed(uint64_t seed, uint64_t stream) noexcept;

/// 0 .. n-1 in a random order that depends on `seed` and `stream` alone (Fisher-Yates). @param n 0 to 2^32 - 1.
std::vector<int64_t> random_permutation(int64_t n, uint64_t seed, uint64_t stream);

}  // namespace tw
