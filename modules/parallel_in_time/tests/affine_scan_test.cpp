// SPDX-License-Identifier: Apache-2.0
// Linear recurrences in chunks, against step-by-step evaluation.
#include "affine_scan.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace tw::layer_parallel {
namespace affine_scan_test {

using torch::Tensor;

struct Recurrence {
  JacobianKind kind;
  Tensor jacobians, constants, start;

  /// [n, ...]
  Tensor serial() const {
    std::vector<Tensor> values;
    Tensor value = start;
    for (int64_t t = 0; t < constants.size(0); ++t) {
      value = constants[t] + (kind == JacobianKind::full ? torch::einsum("bij,bj->bi", {jacobians[t], value})
                                                         : torch::einsum("bijw,bjw->biw", {jacobians[t], value}));
      values.push_back(value);
    }
    return torch::stack(values);
  }
};

/// With matrices that neither grow nor vanish.
Recurrence recurrence(JacobianKind kind, int64_t steps, int64_t size, int64_t width) {
  torch::manual_seed(9);
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  if (kind == JacobianKind::full) {
    return {kind, torch::randn({steps, 2, size, size}, torch::kDouble) * scale, torch::randn({steps, 2, size}, torch::kDouble),
            torch::randn({2, size}, torch::kDouble)};
  }
  return {kind, torch::randn({steps, 2, size, size, width}, torch::kDouble) * scale, torch::randn({steps, 2, size, width}, torch::kDouble),
          torch::randn({2, size, width}, torch::kDouble)};
}

// 1e-12: a thousand rounding errors.
void expect_serial(const Recurrence& of, bool chunked) {
  const int64_t steps = of.constants.size(0);
  AffineScan scan(of.kind, of.jacobians, of.constants, steps);
  EXPECT_EQ(scan.length() < steps, chunked) << steps;
  const Tensor expected = of.serial();
  EXPECT_TRUE(scan.end(of.start).allclose(expected[-1], 1e-12, 1e-12)) << steps;
  EXPECT_TRUE(scan.all(of.start).allclose(expected, 1e-12, 1e-12)) << steps;
}

TEST(AffineScan, IsOneStepAfterTheOther) {
  for (const JacobianKind kind : {JacobianKind::full, JacobianKind::diagonal}) {
    for (const int64_t size : {1, 2}) {
      for (const int64_t steps : {30, 47, 48, 49, 200}) expect_serial(recurrence(kind, steps, size, 3), true);
      expect_serial(recurrence(kind, 1, size, 3), false);
      expect_serial(recurrence(kind, 2, size, 3), false);
    }
  }
  expect_serial(recurrence(JacobianKind::full, 20, 70, 1), false);
}

// Products of large matrices pay off only if there are steps of other ranks before these.
TEST(AffineScan, ComposesWhereThatIsLessThanToWait) {
  EXPECT_LT(chunk_length(400, 400, 64, 1), 400);
  EXPECT_EQ(chunk_length(400, 400, 32 * 64 * 64, 64), 400);
  EXPECT_LT(chunk_length(400, 6400, 32 * 64 * 64, 64), 400);
}

// Matrices whose products overflow, and steps that change nothing: these stay exact.
TEST(AffineScan, OverflowDoesNoHarmWhereNothingMoves) {
  Recurrence of = recurrence(JacobianKind::full, 120, 2, 1);
  of.jacobians = of.jacobians * 1e40;
  of.constants.narrow(0, 0, 100).zero_();
  of.start.zero_();
  AffineScan scan(of.kind, of.jacobians, of.constants, 120);
  ASSERT_LT(scan.length(), 120);
  const Tensor found = scan.all(of.start);
  EXPECT_TRUE(found.isfinite().all().item<bool>());
  EXPECT_EQ(found.narrow(0, 0, 100).abs().sum().item<double>(), 0);
  EXPECT_TRUE(found[100].equal(of.constants[100]));
}

}  // namespace affine_scan_test
}  // namespace tw::layer_parallel
