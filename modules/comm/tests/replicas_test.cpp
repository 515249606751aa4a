// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <cmath>
#include <tw/comm.hpp>

namespace replicas_test {

using tw::compare_replicas;
using tw::testing::world;

int last() { return world().size() - 1; }
bool is_last() { return world().rank() == last(); }
std::vector<int> only_last() { return world().size() == 1 ? std::vector<int>() : std::vector<int>{last()}; }

// 1001 numbers in [0.5, 1), the same on all ranks.
at::Tensor numbers(at::ScalarType dtype = at::kFloat) {
  torch::manual_seed(3);
  return (0.5 + 0.5 * torch::rand({7, 143}, at::kDouble)).to(dtype);
}

/// Compares `odd` on the last rank with `usual` on the others.
tw::ReplicaReport check(const at::Tensor& usual, const at::Tensor& odd) { return compare_replicas(world(), is_last() ? odd : usual); }

void expect_identical(const tw::ReplicaReport& report) {
  EXPECT_TRUE(report.identical);
  EXPECT_TRUE(report.similar);
  EXPECT_TRUE(report.differing.empty());
  EXPECT_EQ(report.ranks, world().size());
  EXPECT_EQ(report.describe(), tw::concat("identical on ", world().size(), world().size() == 1 ? " rank" : " ranks"));
}

// Only the last rank's copy differs; on a single rank nothing does.
void expect_last_differs(const tw::ReplicaReport& report, bool similar) {
  if (world().size() == 1) return expect_identical(report);
  EXPECT_FALSE(report.identical);
  EXPECT_EQ(report.similar, similar) << report.describe();
  EXPECT_EQ(report.differing, only_last());
  const std::string text = report.describe();
  EXPECT_EQ(text.find(tw::concat("rank ", last(), " differs from rank 0: mean of |x| off by ")), 0U) << text;
  EXPECT_EQ(text.find("they are similar") != std::string::npos, similar) << text;
}

TEST(CheckWithAllreduce, FindsEqualCopiesIdentical) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kComplexFloat, at::kComplexDouble}) {
    expect_identical(compare_replicas(world(), numbers(dtype)));
  }
  for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    expect_identical(compare_replicas(world(), torch::arange(-50, 50, dtype == at::kByte ? at::kChar : dtype).to(dtype)));
  }
  expect_identical(compare_replicas(world(), torch::tensor({true, false, true})));
  expect_identical(compare_replicas(world(), torch::tensor(2.5)));
  expect_identical(compare_replicas(world(), torch::zeros({4})));
}

TEST(CheckWithAllreduce, FindsEmptyOnesIdentical) {
  expect_identical(compare_replicas(world(), torch::empty({0})));
  expect_identical(compare_replicas(world(), torch::empty({3, 0, 2}, at::kLong)));
}

// One unit in the last place of one of 1001 numbers: the relative error of the mean is at most 2^-24 / (1001 * 0.5), in float64 less.
TEST(CheckWithAllreduce, FindsTheLastBitOfOneElement) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor odd = numbers(dtype);
    odd.view({-1})[500] = odd.view({-1})[500].nextafter(torch::tensor(2.0, dtype));
    const auto report = check(numbers(dtype), odd);
    expect_last_differs(report, true);
    EXPECT_LE(report.mean_deviation, 0x1p-24 / (1001 * 0.5));
    if (dtype == at::kFloat && world().size() > 1) {
      EXPECT_GT(report.mean_deviation, 0);
    }
  }
}

TEST(CheckWithAllreduce, FindsPermutedOnesSimilarButNotIdentical) {
  expect_last_differs(check(numbers(), numbers().view({-1}).flip(0).view({7, 143})), true);
  expect_last_differs(check(numbers(), -numbers()), true);  // the statistics use |x|
  expect_last_differs(check(torch::zeros({3}), -torch::zeros({3})), true);
  const at::Tensor plane = torch::complex(numbers(), numbers().flip(1));
  expect_last_differs(check(plane, plane.conj()), true);
  expect_last_differs(check(torch::arange(100), torch::arange(100).flip(0)), true);
}

// P - 1 ranks have mean m, one has m (1 + d). Its deviation from the mean of all, relative to m (1 + d/P), is d (P-1)/P to first order; the others
// deviate less.
TEST(CheckWithAllreduce, MeasuresHowFarOnesOwnIs) {
  constexpr double d = 1e-5;
  const auto report = check(numbers(at::kDouble), numbers(at::kDouble) * (1 + d));
  expect_last_differs(report, false);
  const double expected = d * (world().size() - 1) / world().size();
  EXPECT_NEAR(report.mean_deviation, expected, d * d);
  EXPECT_NEAR(report.variance_deviation, 2 * expected, 4 * d * d);  // (1 + d)^2
}

TW_TEST_ON(CheckWithAllreduce, DrawsTheLineOfSimilarityAtTenToTheMinusSeven, {.least = 2}) {
  const double share = static_cast<double>(world().size() - 1) / world().size();
  const at::Tensor usual = numbers(at::kDouble);
  for (const double off : {0.4e-7, 0.6e-7}) {  // the variance deviates twice as far as the mean
    expect_last_differs(check(usual, usual * (1 + off / share)), 2 * off < 1e-7);
  }
  for (const double off : {0.9e-7, 1.1e-7}) {  // the mean alone
    const at::Tensor odd = usual + usual.mean() * (off / share);
    expect_last_differs(check(usual, odd), off < 1e-7);
  }
}

TEST(CheckWithAllreduce, FindsNumbersThatAreNone) {
  const at::Tensor odd = numbers();
  odd[3][4] = std::nan("");
  const auto report = check(numbers(), odd);
  expect_last_differs(report, false);
  EXPECT_EQ(report.mean_deviation, world().size() > 1 ? HUGE_VAL : 0);
  expect_identical(compare_replicas(world(), odd));  // the same NaN on all ranks

  const at::Tensor infinite = numbers();
  infinite[0][0] = HUGE_VAL;
  expect_last_differs(check(numbers(), infinite), false);
}

TEST(CheckWithAllreduce, FindsOtherIntegers) {
  expect_last_differs(check(torch::arange(100), torch::arange(1, 101)), false);
  expect_last_differs(check(torch::tensor({true, false}), torch::tensor({true, true})), false);
}

TW_TEST_ON(CheckWithAllreduce, NamesAllThatDifferFromRankZero, {.least = 3}) {  // with two ranks only one differs
  const auto report = compare_replicas(world(), world().rank() == 0 ? numbers() : -numbers());
  EXPECT_EQ(static_cast<int>(report.differing.size()), last());
  EXPECT_EQ(report.describe().find("ranks 1, 2"), 0U) << report.describe();
  EXPECT_NE(report.describe().find(" differ from rank 0"), std::string::npos);
}

TEST(CheckWithAllreduce, ComparesContentWhateverTheStrides) {
  expect_identical(check(numbers(), numbers().t().contiguous().t()));
  expect_identical(check(numbers(), numbers().repeat({1, 2}).narrow(1, 143, 143)));
}

TEST(CheckWithAllreduce, LeavesTheTensorAlone) {
  const at::Tensor tensor = numbers().requires_grad_();
  const auto version = tensor._version();
  expect_identical(compare_replicas(world(), tensor));
  EXPECT_TRUE(tensor.equal(numbers()));
  EXPECT_EQ(tensor._version(), version);
}

}  // namespace replicas_test
