// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/sobol_sequence.hpp>

#include <bit>
#include <tw/base/contract.hpp>

namespace tw::search {
namespace {

/// A primitive polynomial x^s + a_1 x^(s-1) + ... + a_(s-1) x + 1, whose inner coefficients are the bits of `inner`, and s initial numbers.
struct Generator {
  uint32_t inner;
  std::array<uint32_t, 9> initial;  // 0 after the s-th
};

// Dimensions 2 to 64 of new-joe-kuo-6.21201 (S. Joe and F. Y. Kuo, https://web.maths.unsw.edu.au/~fkuo/sobol).
constexpr std::array<Generator, SobolSequence::max_dimensions - 1> generators{{
    {0, {1}},
    {1, {1, 3}},
    {1, {1, 3, 1}},
    {2, {1, 1, 1}},
    {1, {1, 1, 3, 3}},
    {4, {1, 3, 5, 13}},
    {2, {1, 1, 5, 5, 17}},
    {4, {1, 1, 5, 5, 5}},
    {7, {1, 1, 7, 11, 19}},
    {11, {1, 1, 5, 1, 1}},
    {13, {1, 1, 1, 3, 11}},
    {14, {1, 3, 5, 5, 31}},
    {1, {1, 3, 3, 9, 7, 49}},
    {13, {1, 1, 1, 15, 21, 21}},
    {16, {1, 3, 1, 13, 27, 49}},
    {19, {1, 1, 1, 15, 7, 5}},
    {22, {1, 3, 1, 15, 13, 25}},
    {25, {1, 1, 5, 5, 19, 61}},
    {1, {1, 3, 7, 11, 23, 15, 103}},
    {4, {1, 3, 7, 13, 13, 15, 69}},
    {7, {1, 1, 3, 13, 7, 35, 63}},
    {8, {1, 3, 5, 9, 1, 25, 53}},
    {14, {1, 3, 1, 13, 9, 35, 107}},
    {19, {1, 3, 1, 5, 27, 61, 31}},
    {21, {1, 1, 5, 11, 19, 41, 61}},
    {28, {1, 3, 5, 3, 3, 13, 69}},
    {31, {1, 1, 7, 13, 1, 19, 1}},
    {32, {1, 3, 7, 5, 13, 19, 59}},
    {37, {1, 1, 3, 9, 25, 29, 41}},
    {41, {1, 3, 5, 13, 23, 1, 55}},
    {42, {1, 3, 7, 3, 13, 59, 17}},
    {50, {1, 3, 1, 3, 5, 53, 69}},
    {55, {1, 1, 5, 5, 23, 33, 13}},
    {56, {1, 1, 7, 7, 1, 61, 123}},
    {59, {1, 1, 7, 9, 13, 61, 49}},
    {62, {1, 3, 3, 5, 3, 55, 33}},
    {14, {1, 3, 1, 15, 31, 13, 49, 245}},
    {21, {1, 3, 5, 15, 31, 59, 63, 97}},
    {22, {1, 3, 1, 11, 11, 11, 77, 249}},
    {38, {1, 3, 1, 11, 27, 43, 71, 9}},
    {47, {1, 1, 7, 15, 21, 11, 81, 45}},
    {49, {1, 3, 7, 3, 25, 31, 65, 79}},
    {50, {1, 3, 1, 1, 19, 11, 3, 205}},
    {52, {1, 1, 5, 9, 19, 21, 29, 157}},
    {56, {1, 3, 7, 11, 1, 33, 89, 185}},
    {67, {1, 3, 3, 3, 15, 9, 79, 71}},
    {70, {1, 3, 7, 11, 15, 39, 119, 27}},
    {84, {1, 1, 3, 1, 11, 31, 97, 225}},
    {97, {1, 1, 1, 3, 23, 43, 57, 177}},
    {103, {1, 3, 7, 7, 17, 17, 37, 71}},
    {115, {1, 3, 1, 5, 27, 63, 123, 213}},
    {122, {1, 1, 3, 5, 11, 43, 53, 133}},
    {8, {1, 3, 5, 5, 29, 17, 47, 173, 479}},
    {13, {1, 3, 3, 11, 3, 1, 109, 9, 69}},
    {16, {1, 1, 1, 5, 17, 39, 23, 5, 343}},
    {22, {1, 3, 1, 5, 25, 15, 31, 103, 499}},
    {25, {1, 1, 1, 11, 11, 17, 63, 105, 183}},
    {44, {1, 1, 5, 11, 9, 29, 97, 231, 363}},
    {47, {1, 1, 5, 15, 19, 45, 41, 7, 383}},
    {52, {1, 3, 7, 7, 31, 19, 83, 137, 221}},
    {55, {1, 1, 1, 3, 23, 15, 111, 223, 83}},
    {59, {1, 1, 5, 13, 31, 15, 55, 25, 161}},
    {62, {1, 1, 3, 13, 25, 47, 39, 87, 257}},
}};

/// v_k = m_k / 2^k, where m_k = 2 a_1 m_(k-1) ^ 4 a_2 m_(k-2) ^ ... ^ 2^s m_(k-s) ^ m_(k-s).
std::array<uint32_t, 32> directions_of(const Generator& generator) {
  size_t degree = 0;
  while (degree < generator.initial.size() && generator.initial[degree] != 0) ++degree;
  std::array<uint32_t, 32> v{};
  for (size_t k = 0; k < degree; ++k) v[k] = generator.initial[k] << (31 - k);
  for (size_t k = degree; k < v.size(); ++k) {
    v[k] = v[k - degree] ^ v[k - degree] >> degree;
    for (size_t i = 1; i < degree; ++i) {
      if ((generator.inner >> (degree - 1 - i) & 1) != 0) v[k] ^= v[k - i];
    }
  }
  return v;
}

uint32_t bits_reversed(uint32_t x) noexcept {
  x = x << 16 | x >> 16;
  x = (x & 0x00ff00ff) << 8 | (x & 0xff00ff00) >> 8;
  x = (x & 0x0f0f0f0f) << 4 | (x & 0xf0f0f0f0) >> 4;
  x = (x & 0x33333333) << 2 | (x & 0xcccccccc) >> 2;
  return (x & 0x55555555) << 1 | (x & 0xaaaaaaaa) >> 1;
}

}  // namespace

SobolSequence::SobolSequence(size_t dimensions) {
  TW_EXPECTS(dimensions >= 1 && dimensions <= max_dimensions, "a Sobol sequence supports 1 to ", max_dimensions, " dimensions, got ", dimensions);
  directions_.resize(dimensions);
  for (size_t k = 0; k < 32; ++k) directions_[0][k] = 1U << (31 - k);
  for (size_t d = 1; d < dimensions; ++d) directions_[d] = directions_of(generators[d - 1]);
}

uint32_t SobolSequence::at(size_t dimension, uint32_t index) const noexcept {
  uint32_t x = 0;
  for (uint32_t gray = index ^ index >> 1; gray != 0; gray &= gray - 1) x ^= directions_[dimension][static_cast<size_t>(std::countr_zero(gray))];
  return x;
}

uint32_t owen_scrambled(uint32_t x, uint32_t seed) noexcept {
  // Sums and products with even numbers carry upwards only. In reversed bit order, each digit therefore depends on the digits above it.
  x = bits_reversed(x);
  x ^= x * 0x3d20adea;
  x += seed;
  x *= seed >> 16 | 1;
  x ^= x * 0x05526c56;
  x ^= x * 0x53a22864;
  return bits_reversed(x);
}

}  // namespace tw::search
