// SPDX-License-Identifier: Apache-2.0
// A parameter whose reduced gradient is known in advance.
#pragma once
#include <torch/torch.h>

#include <tw/data_parallel.hpp>

#include "mpi_test.hpp"

namespace tw::testing::one_parameter {

// Sum over ranks of (rank + 1).
inline double triangle() { return world().size() * (world().size() + 1) / 2.0; }

inline double factor(tw::Reduction reduction) { return reduction == tw::Reduction::sum ? triangle() : triangle() / world().size(); }

inline at::Tensor parameter(int64_t n = 3) { return torch::ones({n}, torch::requires_grad()); }

// A loss whose gradient with respect to `p` is (rank + 1) * scale.
inline at::Tensor loss_of(const at::Tensor& p, double scale = 1) { return (p * scale * (world().rank() + 1)).sum(); }

// For floats of a few units, divided and summed a few times.
constexpr double tolerance = 1e-5;

inline void expect_gradient(const at::Tensor& p, double value) {
  ASSERT_TRUE(p.grad().defined());
  EXPECT_NEAR(p.grad().min().item<double>(), value, tolerance);
  EXPECT_NEAR(p.grad().max().item<double>(), value, tolerance);
}

inline constexpr auto reductions = {tw::Reduction::sum, tw::Reduction::mean, tw::Reduction::sample_weighted};

}  // namespace tw::testing::one_parameter
