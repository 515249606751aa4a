// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <cstring>
#include <tw/base/bfloat16.hpp>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/server_shards/rule.hpp>
#include <tw/shared_memory/reduce.hpp>
#include <type_traits>

namespace tw::parameter_server::rules {
namespace {

/// The type in which numbers of type T are computed.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Numbers in memory, read and written in the type they are computed in.
template <class T>
struct Column {
  T* at;
  auto operator[](int64_t i) const { return static_cast<Computed<std::remove_const_t<T>>>(at[i]); }
  void set(int64_t i, Computed<T> value) const { at[i] = static_cast<T>(value); }
};

template <class T>
Column<T> column(std::byte* memory) {
  return {reinterpret_cast<T*>(memory)};
}
template <class T>
Column<const T> column(const std::byte* memory) {
  return {reinterpret_cast<const T*>(memory)};
}

/// Calls f.operator()<T>() with the C++ type of a stretch.
template <class Function>
void with_type(ElementType type, Function f) {
  switch (type) {
    case ElementType::float32: return f.template operator()<float>();
    case ElementType::float64: return f.template operator()<double>();
    case ElementType::float16: return f.template operator()<_Float16>();
    case ElementType::bfloat16: return f.template operator()<BFloat16>();
    default: throw ContractError(concat("rules work on floating point numbers, not on ", name_of(type)));
  }
}

size_t bytes_of(const Stretch& s) { return static_cast<size_t>(s.count * element_bytes(s.type)); }

}  // namespace

Rule zero() {
  return {.name = "zero", .apply = [](const Stretch& s) { std::memset(s.values, 0, bytes_of(s)); }};
}

Rule copy() {
  return {.name = "copy", .apply = [](const Stretch& s) { std::memcpy(s.values, s.pushed, bytes_of(s)); }};
}

Rule add() {
  return {.name = "add", .apply = [](const Stretch& s) {
            const std::array<const std::byte*, 2> terms{s.values, s.pushed};
            shared_memory::reduce(ReduceOp::sum, s.type, terms, std::array{s.values}, s.count);
          }};
}

Rule mean(int count) {
  TW_EXPECTS(count >= 1, "a mean is that of 1 push at least, got ", count);
  return {.name = "mean", .settings = concat("of ", count), .slots = 1, .apply = [count](const Stretch& s) {
            const bool complete = (s.updates + 1) % count == 0;
            with_type(s.type, [&]<class T>() {
              const auto x = column<T>(s.values);
              const auto sums = column<Computed<T>>(s.state[0]);
              const auto g = column<T>(s.pushed);
              for (int64_t i = 0; i < s.count; ++i) {
                const auto sum = sums[i] + g[i];
                sums.set(i, complete ? 0 : sum);
                if (complete) x.set(i, sum / static_cast<Computed<T>>(count));
              }
            });
          }};
}

namespace {

constexpr Bounds positive{.least = 0, .above = true};
constexpr Bounds share{.least = 0, .most = 1, .below = true};

/// "lr 0.01, momentum 0.9". @throws ContractError for a value outside its bounds
template <class Options>
std::string settings_of(const Options& options) {
  expect_none(out_of_bounds(options));
  std::string text;
  for (const std::string& line : value_lines(options)) text += (text.empty() ? "" : ", ") + line;
  return text;
}

}  // namespace

void visit(MomentumOptions& o, OptionVisitor& visitor) {
  visitor.field("lr", o.lr, positive, {.meaning = "learning rate"});
  visitor.field("momentum", o.momentum, share, {.meaning = "of the gradients before"});
  visitor.field("nesterov", o.nesterov, {.meaning = "look ahead"});
}

void visit(AdagradOptions& o, OptionVisitor& visitor) {
  visitor.field("lr", o.lr, positive, {.meaning = "learning rate"});
  visitor.field("epsilon", o.epsilon, {.least = 0}, {.meaning = "added to the root"});
}

void visit(AdamOptions& o, OptionVisitor& visitor) {
  visitor.field("lr", o.lr, positive, {.meaning = "learning rate"});
  visitor.field("beta1", o.beta1, share, {.meaning = "of the gradients before"});
  visitor.field("beta2", o.beta2, share, {.meaning = "of their squares before"});
  visitor.field("epsilon", o.epsilon, {.least = 0}, {.meaning = "added to the root"});
}

Rule momentum(const MomentumOptions& o) {
  return {.name = "momentum", .settings = settings_of(o), .slots = 1, .apply = [o](const Stretch& s) {
            with_type(s.type, [&]<class T>() {
              const auto mu = static_cast<Computed<T>>(o.momentum);
              const auto lr = static_cast<Computed<T>>(o.lr);
              const auto x = column<T>(s.values);
              const auto m = column<Computed<T>>(s.state[0]);
              const auto g = column<T>(s.pushed);
              for (int64_t i = 0; i < s.count; ++i) {
                const auto now = mu * m[i] + g[i];
                m.set(i, now);
                x.set(i, x[i] - lr * (o.nesterov ? g[i] + mu * now : now));
              }
            });
          }};
}

Rule adagrad(const AdagradOptions& o) {
  return {.name = "adagrad", .settings = settings_of(o), .slots = 1, .apply = [o](const Stretch& s) {
            with_type(s.type, [&]<class T>() {
              const auto lr = static_cast<Computed<T>>(o.lr);
              const auto epsilon = static_cast<Computed<T>>(o.epsilon);
              const auto x = column<T>(s.values);
              const auto squares = column<Computed<T>>(s.state[0]);
              const auto g = column<T>(s.pushed);
              for (int64_t i = 0; i < s.count; ++i) {
                const auto sum = squares[i] + g[i] * g[i];
                squares.set(i, sum);
                x.set(i, x[i] - lr * g[i] / (std::sqrt(sum) + epsilon));
              }
            });
          }};
}

Rule adam(const AdamOptions& o) {
  return {.name = "adam", .settings = settings_of(o), .slots = 2, .apply = [o](const Stretch& s) {
            const auto t = static_cast<double>(s.updates + 1);
            with_type(s.type, [&]<class T>() {
              using C = Computed<T>;
              const auto b1 = static_cast<C>(o.beta1);
              const auto b2 = static_cast<C>(o.beta2);
              const auto step = static_cast<C>(o.lr / (1 - std::pow(o.beta1, t)));
              const auto scale = static_cast<C>(1 / std::sqrt(1 - std::pow(o.beta2, t)));
              const auto epsilon = static_cast<C>(o.epsilon);
              const auto x = column<T>(s.values);
              const auto m = column<Computed<T>>(s.state[0]);
              const auto v = column<Computed<T>>(s.state[1]);
              const auto g = column<T>(s.pushed);
              for (int64_t i = 0; i < s.count; ++i) {
                const C mean = b1 * m[i] + (1 - b1) * g[i];
                const C square = b2 * v[i] + (1 - b2) * g[i] * g[i];
                m.set(i, mean);
                v.set(i, square);
                x.set(i, x[i] - step * mean / (std::sqrt(square) * scale + epsilon));
              }
            });
          }};
}

}  // namespace tw::parameter_server::rules
