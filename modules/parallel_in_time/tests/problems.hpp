// SPDX-License-Identifier: Apache-2.0
// Initial value problems for tests of the solver.
#pragma once
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <tw/parallel_in_time/propagator.hpp>
#include <vector>

namespace tw::layer_parallel {

/// An initial value problem with `steps` steps to `final_time`.
struct Problem {
  int64_t steps;
  double final_time;
  at::Tensor origin;
  std::function<at::Tensor(const at::Tensor& u, double a, double b)> step;

  double time(int64_t point) const { return static_cast<double>(point) * final_time / static_cast<double>(steps); }

  StepwisePropagator propagator() const {
    return StepwisePropagator([this](const March& march, int64_t k, const State& from) -> State {
      const int64_t stride = march.plan.level(march.level).stride;
      return {step(from[0], time(k * stride), time((k + 1) * stride))};
    });
  }

  std::vector<at::Tensor> serial() const {
    std::vector<at::Tensor> values{origin};
    for (int64_t k = 0; k < steps; ++k) values.push_back(step(values.back(), time(k), time(k + 1)));
    return values;
  }
};

inline Problem decay(int64_t steps) {
  return {steps, static_cast<double>(steps) / 2, at::full({1}, 1.0, at::kDouble),
          [](const at::Tensor& u, double a, double b) { return u / (1 + (b - a)); }};
}

/// u_t = u_xx + F on [0, pi], whose solution is sin x cos t.
inline Problem heat(int64_t steps, int64_t m) {
  const double dx = std::numbers::pi / static_cast<double>(m - 1);
  std::vector<double> x(static_cast<size_t>(m), 0);
  for (size_t j = 1; j < x.size(); ++j) x[j] = x[j - 1] + dx;
  at::Tensor origin = at::zeros({m}, at::kDouble);
  for (size_t j = 0; j < x.size(); ++j) origin.data_ptr<double>()[j] = std::sin(x[j]);
  const auto step = [x, dx](const at::Tensor& from, double a, double b) {
    at::Tensor to = from.clone();
    double* u = to.data_ptr<double>();
    const size_t n = x.size();
    const double dt = b - a;
    u[0] = std::sin(0.0) * std::cos(b);
    u[n - 1] = std::sin(std::numbers::pi) * std::cos(b);
    for (size_t j = 0; j < n; ++j) u[j] += dt * std::sin(x[j]) * (std::cos(b) - std::sin(b));
    // Thomas' algorithm for (1 + 2k) w_j - k w_{j-1} - k w_{j+1} = u_j inside, w = u at the ends
    const double k = dt / (dx * dx);
    std::vector<double> upper(n, 0);
    for (size_t j = 1; j + 1 < n; ++j) {
      const double pivot = 1 + 2 * k + k * upper[j - 1];
      upper[j] = -k / pivot;
      u[j] = (u[j] + k * u[j - 1]) / pivot;
    }
    for (size_t j = n - 1; j-- > 1;) u[j] -= upper[j] * u[j + 1];
    return to;
  };
  return {steps, 2 * std::numbers::pi, origin, step};
}

}  // namespace tw::layer_parallel
