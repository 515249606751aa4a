// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace tw {

/// Counter-based random numbers: the i-th number of (seed, stream) is a pure function of (seed, stream, i), so it depends neither on the number of
/// ranks nor on earlier draws. Meets UniformRandomBitGenerator.
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
  uint64_t block_ = 0;  // number of blocks of four generated so far
  std::array<uint32_t, 4> numbers_{};
  int used_ = 4;
};

/// Uniform in [0, 1), with 53 random bits.
double uniform(CounterRng& random) noexcept;
/// Normal, with mean 0 and standard deviation 1. Ref: Box & Muller 1958.
double normal(CounterRng& random) noexcept;

/// Derives a seed from `seed` and `stream`. For any pattern of arguments, two derived seeds are equal only by chance, with probability 2^-64.
/// Ref: Philox, as in CounterRng.
uint64_t derived_seed(uint64_t seed, uint64_t stream) noexcept;

/// The numbers 0 to n - 1 in a random order that depends only on the arguments (Fisher-Yates). @param n 0 to 2^32 - 1.
std::vector<int64_t> random_permutation(int64_t n, uint64_t seed, uint64_t stream);

}  // namespace tw
