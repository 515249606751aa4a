// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <tw/base/random.hpp>
#include <tw/shared_memory/reduce.hpp>
#include <vector>

namespace reduce_test {

using tw::ElementType;
using tw::ReduceOp;
using Bytes = std::vector<std::byte>;

// The two 16-bit formats by definition, from bit pattern to number and back, without the processor's conversions.
struct HalfFormat {
  int exponent_bits;
  int mantissa_bits;

  // Of a pattern without sign. Infinity counts as the power of two after the largest number, as in rounding.
  double magnitude(int bits) const {
    const int exponent = bits >> mantissa_bits;
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int unit = std::max(exponent, 1) - bias - mantissa_bits;
    return std::ldexp((exponent > 0 ? 1 << mantissa_bits : 0) + mantissa, unit);
  }
  double decode(uint16_t bits) const { return bits >> 15 != 0 ? -magnitude(bits & 0x7fff) : magnitude(bits); }

  // Rounds to nearest, ties to even.
  uint16_t encode(double value) const {
    int low = 0;
    int high = ((1 << exponent_bits) - 1) << mantissa_bits;  // infinity
    const double size = std::min(std::abs(value), magnitude(high));
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (magnitude(middle) <= size ? low : high) = middle;
    }
    const double below = size - magnitude(low);
    const double above = magnitude(high) - size;
    const int nearest = below < above || (below == above && low % 2 == 0) ? low : high;
    return static_cast<uint16_t>(nearest | (std::signbit(value) ? 0x8000 : 0));
  }
};

constexpr HalfFormat float16{.exponent_bits = 5, .mantissa_bits = 10};
constexpr HalfFormat bfloat16{.exponent_bits = 8, .mantissa_bits = 7};

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// The references compute one element from the elements of all ranks.

int64_t reduce_integers(ReduceOp op, const std::vector<int64_t>& values) {
  const bool logical = op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor;
  auto result = static_cast<uint64_t>(logical ? values[0] != 0 : values[0]);
  for (size_t k = 1; k < values.size(); ++k) {
    const auto value = static_cast<uint64_t>(values[k]);
    switch (op) {
      case ReduceOp::sum: result += value; break;
      case ReduceOp::product: result *= value; break;
      case ReduceOp::min: result = static_cast<uint64_t>(std::min(static_cast<int64_t>(result), values[k])); break;
      case ReduceOp::max: result = static_cast<uint64_t>(std::max(static_cast<int64_t>(result), values[k])); break;
      case ReduceOp::logical_and: result = result != 0 && value != 0 ? 1 : 0; break;
      case ReduceOp::logical_or: result = result != 0 || value != 0 ? 1 : 0; break;
      case ReduceOp::logical_xor: result = (result != 0) != (value != 0) ? 1 : 0; break;
      case ReduceOp::bitwise_and: result &= value; break;
      case ReduceOp::bitwise_or: result |= value; break;
      case ReduceOp::bitwise_xor: result ^= value; break;
      case ReduceOp::average: ADD_FAILURE(); break;
    }
  }
  return static_cast<int64_t>(result);
}

// In rank order, rounded to T after each step.
template <class T>
T reduce_reals(ReduceOp op, const std::vector<T>& values) {
  T result = values[0];
  for (size_t k = 1; k < values.size(); ++k) {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average: result += values[k]; break;
      case ReduceOp::product: result *= values[k]; break;
      case ReduceOp::min: result = std::min(result, values[k]); break;
      case ReduceOp::max: result = std::max(result, values[k]); break;
      default: ADD_FAILURE();
    }
  }
  return op == ReduceOp::average ? result / static_cast<T>(values.size()) : result;
}

// In higher precision.
std::complex<long double> reduce_complexes(ReduceOp op, const std::vector<std::complex<long double>>& values) {
  std::complex<long double> result = values[0];
  for (size_t k = 1; k < values.size(); ++k) result = op == ReduceOp::product ? result * values[k] : result + values[k];
  return op == ReduceOp::average ? result / static_cast<long double>(values.size()) : result;
}

// Applies `load_one` to the element of every rank.
template <class T>
std::vector<T> each(const std::vector<const std::byte*>& elements, const std::function<T(const std::byte*)>& load_one) {
  std::vector<T> values;
  for (const std::byte* element : elements) values.push_back(load_one(element));
  return values;
}

template <class T>
void expect_integer(ReduceOp op, const std::vector<const std::byte*>& inputs, const std::byte* output) {
  const auto values = each<int64_t>(inputs, [](const std::byte* from) { return static_cast<int64_t>(load<T>(from)); });
  ASSERT_EQ(load<T>(output), static_cast<T>(reduce_integers(op, values)));  // modulo 2^bits: integers wrap around
}

// Additions, multiplications, comparisons and divisions are rounded one by one, in rank order: results are equal to the last bit.
template <class T>
void expect_real(ReduceOp op, const std::vector<const std::byte*>& inputs, const std::byte* output) {
  ASSERT_EQ(load<T>(output), reduce_reals<T>(op, each<T>(inputs, load<T>)));
}

void expect_half(const HalfFormat& format, ReduceOp op, const std::vector<const std::byte*>& inputs, const std::byte* output) {
  const auto values = each<float>(inputs, [&](const std::byte* from) { return static_cast<float>(format.decode(load<uint16_t>(from))); });
  ASSERT_EQ(load<uint16_t>(output), format.encode(reduce_reals<float>(op, values)));  // float32 throughout, rounded once
}

// With u = epsilon / 2: each of k - 1 products has a relative error of at most sqrt(8) u (Higham 2002, lemma 3.5), fused or not. Each of k - 1 sums
// has an error of u times the partial sum, which is at most the sum of the sizes; a division adds u. sqrt(8) k u times the largest size involved
// covers all three.
template <class T>
void expect_complex(ReduceOp op, const std::vector<const std::byte*>& inputs, const std::byte* output) {
  const auto values =
      each<std::complex<long double>>(inputs, [](const std::byte* from) { return std::complex<long double>(load<std::complex<T>>(from)); });
  long double size = op == ReduceOp::product ? 1 : 0;
  for (const std::complex<long double>& value : values) size = op == ReduceOp::product ? size * std::abs(value) : size + std::abs(value);
  const long double tolerance = std::sqrt(8.0L) * static_cast<long double>(inputs.size()) * (std::numeric_limits<T>::epsilon() / 2) * size;
  const std::complex<long double> result(load<std::complex<T>>(output));
  ASSERT_LE(std::abs(result - reduce_complexes(op, values)), inputs.size() == 1 ? 0 : tolerance);
}

void expect_element(ReduceOp op, ElementType type, const std::vector<const std::byte*>& inputs, const std::byte* output) {
  switch (type) {
    case ElementType::boolean:
    case ElementType::uint8: return expect_integer<uint8_t>(op, inputs, output);
    case ElementType::int8: return expect_integer<int8_t>(op, inputs, output);
    case ElementType::int16: return expect_integer<int16_t>(op, inputs, output);
    case ElementType::int32: return expect_integer<int32_t>(op, inputs, output);
    case ElementType::int64: return expect_integer<int64_t>(op, inputs, output);
    case ElementType::float16: return expect_half(float16, op, inputs, output);
    case ElementType::bfloat16: return expect_half(bfloat16, op, inputs, output);
    case ElementType::float32: return expect_real<float>(op, inputs, output);
    case ElementType::float64: return expect_real<double>(op, inputs, output);
    case ElementType::complex64: return expect_complex<float>(op, inputs, output);
    case ElementType::complex128: return expect_complex<double>(op, inputs, output);
  }
}

// Integers of all sizes with many zeros, for the logical operations; reals between -2 and 2, so that no product overflows a 16-bit float.
Bytes random_elements(ElementType type, int64_t count, tw::CounterRng& random) {
  const auto number = [&random] { return random() * 0x1p-30 - 2; };
  const int64_t bytes = tw::element_bytes(type);
  Bytes elements(static_cast<size_t>(count * bytes));
  for (int64_t i = 0; i < count; ++i) {
    std::byte* to = elements.data() + i * bytes;
    switch (type) {
      case ElementType::boolean: *to = static_cast<std::byte>(random.below(2)); break;
      case ElementType::float16: store(to, float16.encode(number())); break;
      case ElementType::bfloat16: store(to, bfloat16.encode(number())); break;
      case ElementType::float32: store(to, static_cast<float>(number())); break;
      case ElementType::float64: store(to, number()); break;
      case ElementType::complex64: store(to, std::complex<float>(static_cast<float>(number()), static_cast<float>(number()))); break;
      case ElementType::complex128: store(to, std::complex<double>(number(), number())); break;
      default: {
        const uint64_t bits = random.below(3) == 0 ? 0 : (uint64_t{random()} << 32) | random();
        std::memcpy(to, &bits, static_cast<size_t>(bytes));
      }
    }
  }
  return elements;
}

struct Shape {
  int inputs;
  int64_t count;
  int outputs;
  int aliased = -1;  // index of the input that the last output aliases
};

void check(ReduceOp op, ElementType type, const Shape& shape) {
  SCOPED_TRACE(::testing::Message() << name_of(op) << " of " << shape.inputs << " x " << shape.count << ' ' << name_of(type) << " to "
                                    << shape.outputs << " outputs, the last one input " << shape.aliased);
  tw::CounterRng random(11, static_cast<uint64_t>(shape.count * 10 + shape.inputs));
  const int64_t bytes = tw::element_bytes(type);
  std::vector<Bytes> inputs;
  for (int k = 0; k < shape.inputs; ++k) inputs.push_back(random_elements(type, shape.count, random));
  const std::vector<Bytes> originals = inputs;
  // One element more than needed: it must not change.
  std::vector<Bytes> outputs(static_cast<size_t>(shape.outputs), Bytes(static_cast<size_t>((shape.count + 1) * bytes), std::byte{0x5a}));

  std::vector<const std::byte*> from;
  for (const Bytes& input : inputs) from.push_back(input.data());
  std::vector<std::byte*> to;
  for (Bytes& output : outputs) to.push_back(output.data());
  if (shape.aliased >= 0) to.back() = inputs[static_cast<size_t>(shape.aliased)].data();
  tw::shared_memory::reduce(op, type, from, to, shape.count);

  for (int64_t i = 0; i < shape.count; ++i) {
    std::vector<const std::byte*> elements;
    for (const Bytes& original : originals) elements.push_back(original.data() + i * bytes);
    expect_element(op, type, elements, to[0] + i * bytes);
    ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "element " << i;
  }
  for (size_t k = 1; k < to.size() && shape.count > 0; ++k) {
    EXPECT_EQ(std::memcmp(to[k], to[0], static_cast<size_t>(shape.count * bytes)), 0) << "output " << k << " has other bits";
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (to[k] != outputs[k].data()) continue;
    EXPECT_TRUE(std::all_of(outputs[k].end() - bytes, outputs[k].end(), [](std::byte byte) { return byte == std::byte{0x5a}; })) << "it wrote on";
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (static_cast<int>(k) != shape.aliased) {
      EXPECT_EQ(inputs[k], originals[k]);
    }
  }
}

class ReduceTest : public ::testing::TestWithParam<ElementType> {};

TEST_P(ReduceTest, EqualsASerialReductionInRankOrder) {
  for (int op = 0; op < tw::reduce_ops; ++op) {
    if (!why_undefined(static_cast<ReduceOp>(op), GetParam()).empty()) continue;
    for (const int inputs : {1, 2, 3, 5}) {
      for (const int64_t count : {0, 1, 511, 512, 513, 1031}) {
        ASSERT_NO_FATAL_FAILURE(check(static_cast<ReduceOp>(op), GetParam(), {.inputs = inputs, .count = count, .outputs = 1}));
      }
      ASSERT_NO_FATAL_FAILURE(check(static_cast<ReduceOp>(op), GetParam(), {.inputs = inputs, .count = 1031, .outputs = 4}));
      // In place: as the only output, and as one of several.
      for (const int aliased : {0, inputs - 1}) {
        for (const int outputs : {1, 3}) {
          ASSERT_NO_FATAL_FAILURE(
              check(static_cast<ReduceOp>(op), GetParam(), {.inputs = inputs, .count = 1031, .outputs = outputs, .aliased = aliased}));
        }
      }
    }
  }
}

std::vector<ElementType> all_types() {
  std::vector<ElementType> types;
  for (int type = 0; type < tw::element_types; ++type) types.push_back(static_cast<ElementType>(type));
  return types;
}
INSTANTIATE_TEST_SUITE_P(Types, ReduceTest, ::testing::ValuesIn(all_types()), [](const auto& type) { return std::string(name_of(type.param)); });

// Sums of two 16-bit floats, as bit patterns.
uint16_t sum(ElementType type, uint16_t a, uint16_t b) {
  const std::vector<const std::byte*> inputs{reinterpret_cast<const std::byte*>(&a), reinterpret_cast<const std::byte*>(&b)};
  uint16_t result = 0;
  const std::vector<std::byte*> outputs{reinterpret_cast<std::byte*>(&result)};
  tw::shared_memory::reduce(ReduceOp::sum, type, inputs, outputs, 1);
  return result;
}

TEST(Reduce, HalvesKeepInfinityAndNaN) {
  for (const auto& [type, format] : {std::pair{ElementType::float16, float16}, std::pair{ElementType::bfloat16, bfloat16}}) {
    const auto infinity = static_cast<uint16_t>(((1 << format.exponent_bits) - 1) << format.mantissa_bits);
    const auto minus_infinity = static_cast<uint16_t>(infinity | 0x8000);
    const auto largest = static_cast<uint16_t>(infinity - 1);
    const auto one = format.encode(1);
    const auto is_nan = [&](uint16_t bits) { return (bits & 0x7fff) > infinity; };
    EXPECT_EQ(sum(type, infinity, one), infinity);
    EXPECT_EQ(sum(type, minus_infinity, one), minus_infinity);
    EXPECT_EQ(sum(type, largest, largest), infinity);
    EXPECT_EQ(sum(type, largest, one), largest);
    EXPECT_PRED1(is_nan, sum(type, infinity, minus_infinity));
    for (const int nan : {infinity + 1, 0x7fff, 0xffff}) EXPECT_PRED1(is_nan, sum(type, static_cast<uint16_t>(nan), one));
  }
}

template <class T>
void expect_nan_kept(ElementType type, ReduceOp op) {
  constexpr int64_t count = 1031;
  for (size_t inputs = 2; inputs <= 4; ++inputs) {
    for (const bool in_place : {false, true}) {
      std::vector<std::vector<T>> values(inputs, std::vector<T>(count));
      for (size_t k = 0; k < inputs; ++k) {
        for (size_t i = 0; i < count; ++i)
          values[k][i] = i % (inputs + 1) == k ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(i % 7) - static_cast<T>(k);
      }
      std::vector<const std::byte*> from;
      for (const auto& each : values) from.push_back(reinterpret_cast<const std::byte*>(each.data()));
      std::vector<T> elsewhere(count);
      std::vector<T>& to = in_place ? values[0] : elsewhere;
      const std::vector<std::byte*> outputs{reinterpret_cast<std::byte*>(to.data())};
      tw::shared_memory::reduce(op, type, from, outputs, count);
      for (size_t i = 0; i < count; ++i)
        ASSERT_EQ(std::isnan(to[i]), i % (inputs + 1) < inputs) << name_of(op) << " of " << inputs << ", element " << i;
    }
  }
}

TEST(Reduce, MinAndMaxKeepNaNOfAnyInput) {
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    expect_nan_kept<float>(ElementType::float32, op);
    expect_nan_kept<double>(ElementType::float64, op);
  }
}

}  // namespace reduce_test
