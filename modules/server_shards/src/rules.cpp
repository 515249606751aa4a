// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstring>
#include <tw/base/bfloat16.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/vector_clones.hpp>
#include <tw/server_shards/rule.hpp>
#include <tw/shared_memory/reduce.hpp>
#include <type_traits>

namespace tw::parameter_server::rules {
namespace {

/// The type in which numbers of type T are computed.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
Computed<T> load(T value) {
  return static_cast<Computed<T>>(value);
}

/// Calls f.operator()<T>() with the C++ type of a chunk.
template <class Function>
void with_type(ElementType type, Function f) {
  switch (type) {
    case ElementType::float32: return f.template operator()<float>();
    case ElementType::float64: return f.template operator()<double>();
    case ElementType::float16: return f.template operator()<_Float16>();
    case ElementType::bfloat16: return f.template operator()<BFloat16>();
    default: throw ContractError(concat("rules need floating point values, got ", name_of(type)));
  }
}

template <class T>
T* values_of(const Chunk& s) {
  return reinterpret_cast<T*>(s.values);
}
template <class T>
const T* pushed_of(const Chunk& s) {
  return reinterpret_cast<const T*>(s.pushed);
}
template <class T>
Computed<T>* state_of(const Chunk& s, size_t slot) {
  return reinterpret_cast<Computed<T>*>(s.state[slot]);
}

/// The loops: x are the values, g the pushed gradients, n the elements of each.
template <class T>
struct Loops {
  TW_VECTOR_CLONES static void sum_up(Computed<T>* __restrict sums, const T* __restrict g, int64_t n) {
    for (int64_t i = 0; i < n; ++i) sums[i] += load(g[i]);
  }

  TW_VECTOR_CLONES static void finish_mean(T* __restrict x, Computed<T>* __restrict sums, const T* __restrict g, int64_t n, Computed<T> count) {
    for (int64_t i = 0; i < n; ++i) {
      x[i] = static_cast<T>((sums[i] + load(g[i])) / count);
      sums[i] = 0;
    }
  }

  TW_VECTOR_CLONES static void step_momentum(T* __restrict x, Computed<T>* __restrict m, const T* __restrict g, int64_t n, const MomentumOptions& o) {
    const auto mu = static_cast<Computed<T>>(o.momentum);
    const auto lr = static_cast<Computed<T>>(o.lr);
    const bool nesterov = o.nesterov;
    for (int64_t i = 0; i < n; ++i) {
      const Computed<T> now = mu * m[i] + load(g[i]);
      m[i] = now;
      x[i] = static_cast<T>(load(x[i]) - lr * (nesterov ? load(g[i]) + mu * now : now));
    }
  }

  TW_VECTOR_CLONES static void step_adagrad(T* __restrict x, Computed<T>* __restrict squares, const T* __restrict g, int64_t n,
                                            const AdagradOptions& o) {
    const auto lr = static_cast<Computed<T>>(o.lr);
    const auto epsilon = static_cast<Computed<T>>(o.epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const Computed<T> sum = squares[i] + load(g[i]) * load(g[i]);
      squares[i] = sum;
      x[i] = static_cast<T>(load(x[i]) - lr * load(g[i]) / (std::sqrt(sum) + epsilon));
    }
  }

  TW_VECTOR_CLONES static void step_adam(T* __restrict x, Computed<T>* __restrict m, Computed<T>* __restrict v, const T* __restrict g, int64_t n,
                                         const AdamOptions& o, double updates) {
    using C = Computed<T>;
    const auto b1 = static_cast<C>(o.beta1);
    const auto b2 = static_cast<C>(o.beta2);
    const auto step = static_cast<C>(o.lr / (1 - std::pow(o.beta1, updates)));
    const auto scale = static_cast<C>(1 / std::sqrt(1 - std::pow(o.beta2, updates)));
    const auto epsilon = static_cast<C>(o.epsilon);
    for (int64_t i = 0; i < n; ++i) {
      const C mean = b1 * m[i] + (1 - b1) * load(g[i]);
      const C square = b2 * v[i] + (1 - b2) * load(g[i]) * load(g[i]);
      m[i] = mean;
      v[i] = square;
      x[i] = static_cast<T>(load(x[i]) - step * mean / (std::sqrt(square) * scale + epsilon));
    }
  }
};

size_t bytes_of(const Chunk& s) { return static_cast<size_t>(s.count * element_bytes(s.type)); }

}  // namespace

Rule zero() {
  return {.name = "zero", .apply = [](const Chunk& s) { std::memset(s.values, 0, bytes_of(s)); }};
}

Rule copy() {
  return {.name = "copy", .apply = [](const Chunk& s) { std::memcpy(s.values, s.pushed, bytes_of(s)); }};
}

Rule add() {
  return {.name = "add", .apply = [](const Chunk& s) {
            const std::array<const std::byte*, 2> terms{s.values, s.pushed};
            shared_memory::reduce(ReduceOp::sum, s.type, terms, std::array{s.values}, s.count);
          }};
}

Rule mean(int count) {
  TW_EXPECTS(count >= 1, "rules::mean() needs a count of at least 1, got ", count);
  return {.name = "mean", .settings = concat("of ", count), .slots = 1, .apply = [count](const Chunk& s) {
            with_type(s.type, [&]<class T>() {
              if ((s.updates + 1) % count != 0) return Loops<T>::sum_up(state_of<T>(s, 0), pushed_of<T>(s), s.count);
              Loops<T>::finish_mean(values_of<T>(s), state_of<T>(s, 0), pushed_of<T>(s), s.count, static_cast<Computed<T>>(count));
            });
          }};
}

namespace {

constexpr Bounds positive{.least = 0, .excludes_least = true};
constexpr Bounds share{.least = 0, .most = 1, .excludes_most = true};

/// "lr 0.01, momentum 0.9". @throws ContractError for a value outside its bounds
template <class Options>
std::string settings_of(const Options& options) {
  expect_none(out_of_bounds(options));
  return joined(value_lines(options));
}

}  // namespace

void visit(MomentumOptions& o, OptionVisitor& visitor) {
  visitor.field("lr", o.lr, positive, {.meaning = "learning rate"});
  visitor.field("momentum", o.momentum, share, {.meaning = "decay of the sum of gradients per update"});
  visitor.field("nesterov", o.nesterov, {.meaning = "use Nesterov momentum"});
}

void visit(AdagradOptions& o, OptionVisitor& visitor) {
  visitor.field("lr", o.lr, positive, {.meaning = "learning rate"});
  visitor.field("epsilon", o.epsilon, {.least = 0}, {.meaning = "added to the square root in the denominator"});
}

void visit(AdamOptions& o, OptionVisitor& visitor) {
  visitor.field("lr", o.lr, positive, {.meaning = "learning rate"});
  visitor.field("beta1", o.beta1, share, {.meaning = "decay of the mean of gradients per update"});
  visitor.field("beta2", o.beta2, share, {.meaning = "decay of the mean of squared gradients per update"});
  visitor.field("epsilon", o.epsilon, {.least = 0}, {.meaning = "added to the square root in the denominator"});
}

Rule momentum(const MomentumOptions& o) {
  return {.name = "momentum", .settings = settings_of(o), .slots = 1, .apply = [o](const Chunk& s) {
            with_type(s.type, [&]<class T>() { Loops<T>::step_momentum(values_of<T>(s), state_of<T>(s, 0), pushed_of<T>(s), s.count, o); });
          }};
}

Rule adagrad(const AdagradOptions& o) {
  return {.name = "adagrad", .settings = settings_of(o), .slots = 1, .apply = [o](const Chunk& s) {
            with_type(s.type, [&]<class T>() { Loops<T>::step_adagrad(values_of<T>(s), state_of<T>(s, 0), pushed_of<T>(s), s.count, o); });
          }};
}

Rule adam(const AdamOptions& o) {
  return {.name = "adam", .settings = settings_of(o), .slots = 2, .apply = [o](const Chunk& s) {
            const auto updates = static_cast<double>(s.updates + 1);
            with_type(s.type, [&]<class T>() {
              Loops<T>::step_adam(values_of<T>(s), state_of<T>(s, 0), state_of<T>(s, 1), pushed_of<T>(s), s.count, o, updates);
            });
          }};
}

}  // namespace tw::parameter_server::rules
