// SPDX-License-Identifier: Apache-2.0
#include <tw/shared_memory/reduce.hpp>

#include <algorithm>
#include <complex>
#include <cstring>
#include <tw/base/bfloat16.hpp>
#include <tw/base/vector_clones.hpp>
#include <type_traits>

namespace tw::shared_memory {
namespace {

// The stored type of elements, the type they are computed in, and the conversions between the two.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};

// Integers wrap around on overflow, which C++ guarantees only for unsigned types. Small types would be promoted to int, so they are computed in 32
// bits.
template <class T>
struct Integer {
  using Stored = T;
  using Computed = std::conditional_t<sizeof(T) == 8, T, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>;
  static Computed load(T value) { return value; }
  static T store(Computed value) { return static_cast<T>(value); }
};

struct Boolean {
  using Stored = uint8_t;
  using Computed = uint8_t;
  static uint8_t load(uint8_t value) { return value != 0 ? 1 : 0; }
  static uint8_t store(uint8_t value) { return value; }
};

struct Half {
  using Stored = _Float16;
  using Computed = float;
  static float load(_Float16 value) { return static_cast<float>(value); }
  static _Float16 store(float value) { return static_cast<_Float16>(value); }
};

struct Brain {
  using Stored = BFloat16;
  using Computed = float;
  static float load(BFloat16 value) { return static_cast<float>(value); }
  static BFloat16 store(float value) { return BFloat16(value); }
};

template <class T>
bool is_nan(T value) {
  return std::is_floating_point_v<T> && value != value;
}

template <ReduceOp op, class T>
T combine(T a, T b) {
  if constexpr (std::is_integral_v<T> && (op == ReduceOp::sum || op == ReduceOp::product)) {
    using Wide = std::make_unsigned_t<T>;
    return static_cast<T>(op == ReduceOp::sum ? static_cast<Wide>(a) + static_cast<Wide>(b) : static_cast<Wide>(a) * static_cast<Wide>(b));
  } else if constexpr (op == ReduceOp::sum || op == ReduceOp::average) {
    return a + b;
  } else if constexpr (op == ReduceOp::product) {
    return a * b;
  } else if constexpr (op == ReduceOp::min) {
    return ((b < a) | is_nan(b)) ? b : a;  // NaN propagates: every comparison with a NaN `a` is false
  } else if constexpr (op == ReduceOp::max) {
    return ((a < b) | is_nan(b)) ? b : a;
  } else if constexpr (op == ReduceOp::logical_and) {
    return static_cast<T>((a != 0) & (b != 0));
  } else if constexpr (op == ReduceOp::logical_or) {
    return static_cast<T>((a != 0) | (b != 0));
  } else if constexpr (op == ReduceOp::logical_xor) {
    return static_cast<T>((a != 0) ^ (b != 0));
  } else if constexpr (op == ReduceOp::bitwise_and) {
    return a & b;
  } else if constexpr (op == ReduceOp::bitwise_or) {
    return a | b;
  } else {
    return a ^ b;
  }
}

template <class T>
T divide(T value, size_t ranks) {
  return value / static_cast<T>(ranks);
}

template <class T>
std::complex<T> divide(std::complex<T> value, size_t ranks) {
  return value / static_cast<T>(ranks);
}

// Prefetches the bytes [begin, end) of every input. Data that another core has just written arrives slowly, and the processor's own prefetcher stops
// at every page. Without this an all-reduce of 1 MiB takes 1.4 times as long.
void prefetch(const std::byte* const* inputs, size_t input_count, int64_t begin, int64_t end) {
  for (size_t k = 0; k < input_count; ++k) {
    for (int64_t at = begin; at < end; at += 64) __builtin_prefetch(inputs[k] + at, /*for writing=*/0, /*locality=*/2);
  }
}

constexpr int64_t block = 512;  // elements: the partial results of a block stay in the first-level cache

template <class Element, ReduceOp op>
struct Loop {
  using Stored = typename Element::Stored;
  using Computed = typename Element::Computed;

  /// Compiled for several processors only what trains models: the other loops would double the time of compiling.
  static constexpr bool has_clones =
      (op == ReduceOp::sum || op == ReduceOp::average || op == ReduceOp::max) && std::is_arithmetic_v<Computed> && sizeof(Computed) >= 4;

  static constexpr auto run() {
    if constexpr (has_clones) {
      return &run_cloned;
    } else {
      return &reduce;
    }
  }

  TW_VECTOR_CLONES static void run_cloned(const std::byte* const* inputs, size_t input_count, std::byte* const* outputs, size_t output_count,
                                          int64_t count) {
    reduce(inputs, input_count, outputs, output_count, count);
  }

  [[gnu::always_inline]] static void reduce(const std::byte* const* inputs, size_t input_count, std::byte* const* outputs, size_t output_count,
                                            int64_t count) {
    if (input_count == 2 && output_count == 1 && outputs[0] == inputs[0]) {
      return accumulate(reinterpret_cast<Stored*>(outputs[0]), reinterpret_cast<const Stored*>(inputs[1]), count);
    }
    constexpr auto element = static_cast<int64_t>(sizeof(Stored));
    Computed partial[block];  // does not overlap the buffers, so that the compiler can vectorise
    for (int64_t begin = 0; begin < count; begin += block) {
      const int64_t n = std::min(block, count - begin);
      prefetch(inputs, input_count, (begin + n) * element, std::min(begin + n + block, count) * element);
      const auto* first = reinterpret_cast<const Stored*>(inputs[0]) + begin;
      for (int64_t i = 0; i < n; ++i) partial[i] = start(Element::load(first[i]));
      for (size_t k = 1; k < input_count; ++k) {
        const auto* in = reinterpret_cast<const Stored*>(inputs[k]) + begin;
        for (int64_t i = 0; i < n; ++i) partial[i] = combine<op, Computed>(partial[i], Element::load(in[i]));
      }
      if constexpr (op == ReduceOp::average) {
        for (int64_t i = 0; i < n; ++i) partial[i] = divide(partial[i], input_count);
      }
      auto* out = reinterpret_cast<Stored*>(outputs[0]) + begin;
      for (int64_t i = 0; i < n; ++i) out[i] = Element::store(partial[i]);
      for (size_t k = 1; k < output_count; ++k) {
        std::memcpy(reinterpret_cast<Stored*>(outputs[k]) + begin, out, static_cast<size_t>(n) * sizeof(Stored));
      }
    }
  }

  // The case of most pushes to a parameter server. It keeps no partial results: five times as fast in the second-level cache.
  [[gnu::always_inline]] static void accumulate(Stored* __restrict values, const Stored* __restrict in, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Computed value = combine<op, Computed>(start(Element::load(values[i])), Element::load(in[i]));  // NOLINT(misc-const-correctness)
      if constexpr (op == ReduceOp::average) value = divide(value, 2);
      values[i] = Element::store(value);
    }
  }

  // A logical operation yields 0 or 1 even over one rank.
  static Computed start(Computed value) {
    if constexpr (op == ReduceOp::logical_and || op == ReduceOp::logical_or || op == ReduceOp::logical_xor) {
      return static_cast<Computed>(value != Computed{});
    } else {
      return value;
    }
  }
};

using Run = void (*)(const std::byte* const*, size_t, std::byte* const*, size_t, int64_t);

template <class Element>
Run find_loop(ReduceOp op) {
  using Computed = typename Element::Computed;
  constexpr bool whole = std::is_integral_v<Computed>;
  constexpr bool ordered = std::is_arithmetic_v<Computed>;
  switch (op) {
    case ReduceOp::sum: return Loop<Element, ReduceOp::sum>::run();
    case ReduceOp::product: return Loop<Element, ReduceOp::product>::run();
    default: break;
  }
  if constexpr (ordered) {
    if (op == ReduceOp::min) return Loop<Element, ReduceOp::min>::run();
    if (op == ReduceOp::max) return Loop<Element, ReduceOp::max>::run();
  }
  if constexpr (!whole) {
    if (op == ReduceOp::average) return Loop<Element, ReduceOp::average>::run();
  } else {
    switch (op) {
      case ReduceOp::logical_and: return Loop<Element, ReduceOp::logical_and>::run();
      case ReduceOp::logical_or: return Loop<Element, ReduceOp::logical_or>::run();
      case ReduceOp::logical_xor: return Loop<Element, ReduceOp::logical_xor>::run();
      case ReduceOp::bitwise_and: return Loop<Element, ReduceOp::bitwise_and>::run();
      case ReduceOp::bitwise_or: return Loop<Element, ReduceOp::bitwise_or>::run();
      case ReduceOp::bitwise_xor: return Loop<Element, ReduceOp::bitwise_xor>::run();
      default: break;
    }
  }
  return nullptr;
}

Run find_loop(ReduceOp op, ElementType type) {
  switch (type) {
    case ElementType::boolean: return find_loop<Boolean>(op);
    case ElementType::uint8: return find_loop<Integer<uint8_t>>(op);
    case ElementType::int8: return find_loop<Integer<int8_t>>(op);
    case ElementType::int16: return find_loop<Integer<int16_t>>(op);
    case ElementType::int32: return find_loop<Integer<int32_t>>(op);
    case ElementType::int64: return find_loop<Integer<int64_t>>(op);
    case ElementType::float16: return find_loop<Half>(op);
    case ElementType::bfloat16: return find_loop<Brain>(op);
    case ElementType::float32: return find_loop<Plain<float>>(op);
    case ElementType::float64: return find_loop<Plain<double>>(op);
    case ElementType::complex64: return find_loop<Plain<std::complex<float>>>(op);
    case ElementType::complex128: return find_loop<Plain<std::complex<double>>>(op);
  }
  return nullptr;
}

}  // namespace

void reduce(ReduceOp op, ElementType type, std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, int64_t count) {
  find_loop(op, type)(inputs.data(), inputs.size(), outputs.data(), outputs.size(), count);
}

}  // namespace tw::shared_memory
