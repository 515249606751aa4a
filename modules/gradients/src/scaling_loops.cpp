// SPDX-License-Identifier: Apache-2.0
#include "scaling_loops.hpp"

#include <bit>
#include <limits>
#include <tw/base/vector_clones.hpp>
#include <type_traits>

namespace tw::scaling_loops {
namespace {

// A number is not finite when its exponent is all ones. Comparisons of integers vectorise.
template <class Bits>
Bits is_bad(Bits value, Bits exponent) {
  return static_cast<Bits>((value & exponent) == exponent);
}

template <class T>
struct Loops {
  TW_VECTOR_CLONES static void multiply(const T* from, T factor, T* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = factor * from[i];
  }

  TW_VECTOR_CLONES static bool multiply_finite(T* values, T factor, int64_t n) {
    using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    constexpr Bits exponent = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
    Bits bad = 0;
    for (int64_t i = 0; i < n; ++i) {
      values[i] *= factor;
      bad |= is_bad(std::bit_cast<Bits>(values[i]), exponent);
    }
    return bad == 0;
  }
};

}  // namespace

void multiply(const float* from, float factor, float* to, int64_t n) { Loops<float>::multiply(from, factor, to, n); }
void multiply(const double* from, double factor, double* to, int64_t n) { Loops<double>::multiply(from, factor, to, n); }
bool multiply_finite(float* values, float factor, int64_t n) { return Loops<float>::multiply_finite(values, factor, n); }
bool multiply_finite(double* values, double factor, int64_t n) { return Loops<double>::multiply_finite(values, factor, n); }

TW_VECTOR_CLONES bool halves_finite(const uint16_t* values, uint16_t exponent, int64_t n) {
  uint16_t bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= is_bad(values[i], exponent);
  return bad == 0;
}

}  // namespace tw::scaling_loops
