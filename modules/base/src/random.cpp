// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/random.hpp>

#include <Random123/philox.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace tw {

CounterRng::result_type CounterRng::operator()() noexcept {
  if (used_ == 4) {
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
    const r123::Philox4x32::ctr_type counter{{low(block_), high(block_), low(stream_), high(stream_)}};
    const r123::Philox4x32::key_type key{{low(seed_), high(seed_)}};
    const auto made = r123::Philox4x32()(counter, key);
    numbers_ = {made[0], made[1], made[2], made[3]};
    ++block_;
    used_ = 0;
  }
  return numbers_[static_cast<size_t>(used_++)];
}

uint32_t CounterRng::below(uint32_t bound) noexcept {
  uint64_t product = uint64_t{(*this)()} * bound;
  if (static_cast<uint32_t>(product) < bound) {
    const uint32_t threshold = (0U - bound) % bound;
    while (static_cast<uint32_t>(product) < threshold) product = uint64_t{(*this)()} * bound;
  }
  return static_cast<uint32_t>(product >> 32);
}

double uniform(CounterRng& random) noexcept {
  const uint64_t high = random() >> 5;  // 27 bits
  const uint64_t low = random() >> 6;   // 26 bits
  return static_cast<double>(high << 26 | low) * 0x1p-53;
}

double normal(CounterRng& random) noexcept {
  const double radius = std::sqrt(-2 * std::log1p(-uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * uniform(random));
}

uint64_t derived_seed(uint64_t seed, uint64_t stream) noexcept {
  CounterRng numbers(seed, stream);
  const uint64_t high = numbers();
  return high << 32U | numbers();
}

std::vector<int64_t> random_permutation(int64_t n, uint64_t seed, uint64_t stream) {
  TW_EXPECTS(n >= 0 && n <= int64_t{UINT32_MAX}, "a permutation needs 0 to 2^32 - 1 elements, got ", n);
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  CounterRng random(seed, stream);
  for (size_t last = order.size(); last > 1; --last) {
    std::swap(order[last - 1], order[random.below(static_cast<uint32_t>(last))]);
  }
  return order;
}

}  // namespace tw
