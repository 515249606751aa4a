// SPDX-License-Identifier: Apache-2.0
// LibTorch's selection is the reference. Among equal magnitudes the choice is free, so magnitudes are compared.
#include "largest.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>

namespace largest_test {

constexpr int64_t many = 100'000;

void expect_largest(const at::Tensor& values, int64_t k) {
  const at::Tensor places = tw::places_of_largest(values, k);
  ASSERT_EQ(places.sizes(), at::IntArrayRef({k}));
  EXPECT_EQ(std::get<0>(at::_unique(places)).numel(), k) << "a place was taken twice";
  const auto sorted = [](const at::Tensor& magnitudes) { return std::get<0>(magnitudes.sort(0, /*descending=*/true)); };
  const at::Tensor expected = std::get<0>(values.abs().topk(k));
  EXPECT_TRUE(torch::equal(sorted(values.abs().index_select(0, places)).nan_to_num(-1), sorted(expected).nan_to_num(-1)));
}

TEST(Largest, IsWhatLibTorchSelects) {
  torch::manual_seed(1);
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    const at::Tensor normal = torch::randn({many}, dtype);
    for (const int64_t k : {int64_t{1}, int64_t{17}, many / 100, many / 2, many - 1, many}) {
      expect_largest(normal, k);
      expect_largest(normal * 1e-30, k);
      expect_largest(torch::pow(10, normal * 10), k);  // in many bins
      expect_largest(1 + normal * 1e-5, k);            // in few bins
      expect_largest(torch::zeros({many}, dtype), k);  // in one bin
      expect_largest(torch::round(normal), k);         // many equal ones
    }
    expect_largest(torch::randn({100}, dtype), 10);
  }
}

TEST(Largest, TakesWhatIsNoNumberFirst) {
  at::Tensor values = torch::randn({many});
  values[7] = std::numeric_limits<float>::quiet_NaN();
  values[9] = -std::numeric_limits<float>::infinity();
  expect_largest(values, 1);
  expect_largest(values, 2);
  expect_largest(values, 100);
  EXPECT_EQ(tw::places_of_largest(values, 1).item<int64_t>(), 7);
}

TEST(Largest, PlacesBeyond2To31AreInt64) {
  constexpr int64_t most = int64_t{1} << 31;
  EXPECT_EQ(tw::type_of_places(1), torch::kInt);
  EXPECT_EQ(tw::type_of_places(most), torch::kInt);
  EXPECT_EQ(tw::type_of_places(most + 1), torch::kLong);
}

}  // namespace largest_test
