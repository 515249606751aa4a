// SPDX-License-Identifier: Apache-2.0
// Rules compared with their formulas in float64, for every supported type.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <tw/base/bfloat16.hpp>
#include <tw/base/contract.hpp>
#include <tw/server_shards/rule.hpp>
#include <vector>

namespace tw::parameter_server {
namespace rules_test {

constexpr int elements = 37;  // not a multiple of a vector's length
constexpr int pushes = 5;

template <class T>
using Computed = std::conditional_t<std::is_same_v<T, double>, double, float>;

double start_of(int i) { return 0.25 * (i % 7) - 0.5; }
double pushed_at(int i, int push) { return std::sin(0.7 * i + 1.3 * push); }

/// The result of a rule on `elements` numbers of type T after `pushes` pushes.
template <class T>
std::vector<double> ours(const Rule& rule, ElementType type) {
  std::vector<T> x(elements);
  std::vector<std::vector<Computed<T>>> state(static_cast<size_t>(rule.slots), std::vector<Computed<T>>(elements));
  std::vector<std::byte*> slots;
  for (auto& each : state) slots.push_back(reinterpret_cast<std::byte*>(each.data()));
  for (int i = 0; i < elements; ++i) x[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(start_of(i)));
  for (int push = 0; push < pushes; ++push) {
    std::vector<T> g(elements);
    for (int i = 0; i < elements; ++i) g[static_cast<size_t>(i)] = static_cast<T>(static_cast<float>(pushed_at(i, push)));
    rule.apply({reinterpret_cast<std::byte*>(x.data()), slots, reinterpret_cast<const std::byte*>(g.data()), elements, push, type});
  }
  std::vector<double> values;
  for (const T& each : x) values.push_back(static_cast<double>(static_cast<Computed<T>>(each)));
  return values;
}

/// @param formula for one element: the new x when g is pushed for the t-th time, from 1 on; s are its slots
template <class Formula>
void expect_formula(const Rule& rule, Formula formula) {
  std::vector<double> expected;
  for (int i = 0; i < elements; ++i) {
    double x = start_of(i);
    double s[2] = {0, 0};
    for (int push = 0; push < pushes; ++push) formula(x, static_cast<double>(static_cast<float>(pushed_at(i, push))), s, push + 1);
    expected.push_back(x);
  }
  // Each push rounds values and state of magnitude below 8 a few times: 5 pushes x 8 x 4 roundings of half an ulp.
  const auto expect_near = [&](const std::vector<double>& values, double epsilon) {
    for (int i = 0; i < elements; ++i)
      EXPECT_NEAR(values[static_cast<size_t>(i)], expected[static_cast<size_t>(i)], 80 * epsilon) << rule.name << ' ' << i;
  };
  expect_near(ours<double>(rule, ElementType::float64), 0x1p-52);
  expect_near(ours<float>(rule, ElementType::float32), 0x1p-23);
  expect_near(ours<_Float16>(rule, ElementType::float16), 0x1p-10);
  expect_near(ours<BFloat16>(rule, ElementType::bfloat16), 0x1p-7);
}

TEST(Rules, AreTheirFormulas) {
  expect_formula(rules::zero(), [](double& x, double, double*, int) { x = 0; });
  expect_formula(rules::copy(), [](double& x, double g, double*, int) { x = g; });
  expect_formula(rules::add(), [](double& x, double g, double*, int) { x += g; });
  expect_formula(rules::mean(2), [](double& x, double g, double* s, int t) {
    s[0] += g;
    if (t % 2 != 0) return;
    x = s[0] / 2;
    s[0] = 0;
  });
  for (const bool nesterov : {false, true}) {
    expect_formula(rules::momentum({.lr = 0.1, .momentum = 0.8, .nesterov = nesterov}), [&](double& x, double g, double* s, int) {
      s[0] = 0.8 * s[0] + g;
      x -= 0.1 * (nesterov ? g + 0.8 * s[0] : s[0]);
    });
  }
  expect_formula(rules::adagrad({.lr = 0.1, .epsilon = 1e-3}), [](double& x, double g, double* s, int) {
    s[0] += g * g;
    x -= 0.1 * g / (std::sqrt(s[0]) + 1e-3);
  });
  expect_formula(rules::adam({.lr = 0.1, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3}), [](double& x, double g, double* s, int t) {
    s[0] = 0.8 * s[0] + 0.2 * g;
    s[1] = 0.9 * s[1] + 0.1 * g * g;
    x -= 0.1 * (s[0] / (1 - std::pow(0.8, t))) / (std::sqrt(s[1] / (1 - std::pow(0.9, t))) + 1e-3);
  });
}

/// Servers on processors of different generations must agree: no two operations become one. This test is compiled for the oldest, which fuses none.
TEST(Rules, RoundEachOperationOnEveryProcessor) {
  constexpr float lr = 0.1F;
  constexpr float mu = 0.8F;
  std::vector<float> x(elements);
  std::vector<float> m(elements);
  for (int i = 0; i < elements; ++i) x[static_cast<size_t>(i)] = static_cast<float>(start_of(i));
  for (int push = 0; push < pushes; ++push) {
    for (int i = 0; i < elements; ++i) {
      const auto at = static_cast<size_t>(i);
      m[at] = mu * m[at] + static_cast<float>(pushed_at(i, push));
      x[at] -= lr * m[at];
    }
  }
  EXPECT_EQ(ours<float>(rules::momentum({.lr = lr, .momentum = mu}), ElementType::float32), std::vector<double>(x.begin(), x.end()));
}

/// What becomes of one half, 0 at first, to which these are pushed.
template <class Half>
double after(const Rule& rule, ElementType type, const std::vector<double>& gradients) {
  Half x{};
  std::array<float, 2> state{};
  const std::array slots{reinterpret_cast<std::byte*>(&state[0]), reinterpret_cast<std::byte*>(&state[1])};
  for (size_t push = 0; push < gradients.size(); ++push) {
    const auto g = static_cast<Half>(static_cast<float>(gradients[push]));
    rule.apply({reinterpret_cast<std::byte*>(&x), std::span(slots).first(static_cast<size_t>(rule.slots)), reinterpret_cast<const std::byte*>(&g), 1,
                static_cast<int64_t>(push), type});
  }
  return static_cast<float>(x);
}

/// A sum of 16-bit floats, or a square, may be out of their range although the final result is in it.
TEST(Rules, KeepTheStateOfHalvesInFloat32) {
  const auto in_float16 = [](const Rule& rule, const std::vector<double>& gradients) {
    return after<_Float16>(rule, ElementType::float16, gradients);
  };
  const auto in_bfloat16 = [](const Rule& rule, const std::vector<double>& gradients) {
    return after<BFloat16>(rule, ElementType::bfloat16, gradients);
  };
  EXPECT_EQ(in_float16(rules::mean(3), {40000, 40000, 40000}), 40000);
  EXPECT_EQ(in_float16(rules::mean(4), {1000, 0.25, 0.25, 0.25}), 250.25);  // 250.1875 lies midway between two values: rounds to even
  EXPECT_EQ(in_bfloat16(rules::mean(4), {256, 1, 1, 1}), 65);               // 64.75, likewise
  const std::vector<double> small(20, 1e-5);
  // Steps of about lr each, except for epsilon; each rounds x of at most 0.25 by half an ulp, 2^-13 or 2^-10.
  EXPECT_NEAR(in_float16(rules::adam({.lr = 0.01}), small), -0.2, 20 * 0x1p-13 + 0.001);
  EXPECT_NEAR(in_bfloat16(rules::adam({.lr = 0.01}), small), -0.2, 20 * 0x1p-10 + 0.001);
  EXPECT_NEAR(in_float16(rules::adagrad({.lr = 0.01}), small), -0.01 * 7.5953, 20 * 0x1p-14 + 0.001);  // sum of 1 / sqrt(t) for t up to 20
}

TEST(Rules, RefuseWrongOptions) {
  EXPECT_THROW(rules::mean(0), ContractError);
  EXPECT_THROW(rules::momentum({.lr = 0}), ContractError);
  EXPECT_THROW(rules::momentum({.momentum = 1}), ContractError);
  EXPECT_THROW(rules::adagrad({.lr = -1}), ContractError);
  EXPECT_THROW(rules::adam({.beta2 = 1}), ContractError);
  std::byte nothing{};
  EXPECT_THROW(rules::adagrad().apply({.values = &nothing, .pushed = &nothing, .type = ElementType::int32}), ContractError);
}

TEST(Rules, SayAllTheirSettings) {
  EXPECT_NE(rules::adam({.lr = 1e-3}).settings, rules::adam({.lr = 1e-3 + 1e-12}).settings);
  EXPECT_NE(rules::momentum().settings, rules::momentum({.nesterov = true}).settings);
}

}  // namespace rules_test
}  // namespace tw::parameter_server
