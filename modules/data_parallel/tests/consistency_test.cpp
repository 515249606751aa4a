// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include <limits>
#include <tw/data_parallel.hpp>

namespace consistency_test {

using tw::NamedTensor;
using tw::testing::expect_error;
using tw::testing::world;

TEST(CheckConsistent, IsQuietWhereAllIsEqual) {
  torch::manual_seed(1);
  torch::nn::BatchNorm1d norm(3);
  const auto report = tw::check_consistent(world(), *norm);
  EXPECT_TRUE(report.consistent);
  EXPECT_EQ(report.tensors, 5);
  EXPECT_EQ(report.describe(), tw::concat("5 tensors are identical on ", world().size(), world().size() == 1 ? " rank" : " ranks"));
  EXPECT_TRUE(tw::check_consistent(world(), std::vector<NamedTensor>{}).consistent);
}

TEST(CheckConsistent, NamesTheFirstTensorTheRanksAndTheDistance) {
  const int last = world().size() - 1;
  at::Tensor second = torch::ones({4, 3}).t();  // strided
  at::Tensor third = torch::ones({2});
  if (world().rank() > 0) third += 1;
  if (world().rank() == last && last > 0) second[1][2] -= 0.75;
  const auto report = tw::check_consistent(world(), {{"first", torch::ones({})}, {"second", second}, {"third", third}});
  EXPECT_EQ(report.consistent, last == 0);
  if (last == 0) return;
  EXPECT_EQ(report.tensor, "second");
  EXPECT_EQ(report.differing, std::vector<int>{last});
  EXPECT_EQ(report.largest_difference, 0.75);
  EXPECT_EQ(report.describe(), tw::concat("second differs from rank 0 on rank ", last, ", by at most 0.75; 2 of 3 tensors differ"));
}

TW_TEST_ON(CheckConsistent, CountsNumbersOfEveryKind, {.least = 2}) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const bool other = world().rank() == 1;
  const auto distance = [](const at::Tensor& tensor) {
    const auto report = tw::check_consistent(world(), {{"t", tensor}});
    EXPECT_FALSE(report.consistent);
    EXPECT_EQ(report.differing, std::vector<int>{1});
    return report.largest_difference;
  };
  EXPECT_EQ(distance(torch::tensor({nan, infinity, other ? 2.0 : 1.0})), 1);
  EXPECT_EQ(distance(torch::tensor({other ? nan : 1.0})), infinity);
  EXPECT_EQ(distance(torch::tensor({other ? -infinity : infinity})), infinity);
  EXPECT_EQ(distance(torch::tensor({other ? -0.0 : 0.0})), 0);
  EXPECT_EQ(distance(torch::tensor({other ? 5 : 8})), 3);
  EXPECT_EQ(distance(torch::tensor({other})), 1);
  EXPECT_EQ(distance(torch::complex(torch::tensor({other ? 3.0 : 0.0}), torch::tensor({other ? 4.0 : 0.0}))), 5);
}

TW_TEST_ON(CheckConsistent, RefusesOtherModels, {.least = 2}) {
  const auto tensor = torch::ones({world().rank() == 1 ? 2 : 3});
  expect_error([&] { (void)tw::check_consistent(world(), {{"t", tensor}}); }, "rank 1 has 't float32 [2]' where rank 0 has 't float32 [3]'");
}

TEST(Average, IsTheMeanOverTheRanks) {
  const double rank = world().rank();
  const double mean = (world().size() - 1) / 2.0;
  const auto parameter = torch::full({3, 2}, rank, torch::dtype(torch::kDouble).requires_grad(true));
  const auto strided = torch::full({4, 2}, static_cast<float>(rank)).t();
  const auto half = torch::full({2}, rank, torch::kHalf);
  const auto complex = torch::complex(torch::full({2}, rank), torch::full({2}, -rank));
  const auto count = torch::full({}, 12, torch::kLong);
  tw::average(world(), {{"parameter", parameter}, {"strided", strided}, {"half", half}, {"complex", complex}, {"count", count}});
  EXPECT_TRUE(parameter.eq(mean).all().item<bool>());
  EXPECT_TRUE(strided.eq(mean).all().item<bool>());
  EXPECT_TRUE(half.eq(mean).all().item<bool>());
  EXPECT_TRUE(torch::real(complex).eq(mean).all().item<bool>());
  EXPECT_TRUE(torch::imag(complex).eq(-mean).all().item<bool>());
  EXPECT_EQ(count.item<int64_t>(), 12);
  EXPECT_NO_THROW(tw::average(world(), std::vector<NamedTensor>{}));
}

TEST(Average, TakesAModule) {
  torch::nn::BatchNorm1d norm(2);
  norm->running_mean.fill_(int{world().rank()});
  tw::average(world(), *norm);
  EXPECT_TRUE(norm->running_mean.eq((world().size() - 1) / 2.0).all().item<bool>());
}

TW_TEST_ON(Average, RefusesWholeNumbersThatDiffer, {.least = 2}) {
  torch::nn::BatchNorm1d norm(2);
  norm->num_batches_tracked.fill_(world().rank() == 1 ? 7 : 4);
  norm->running_mean.fill_(int{world().rank()});
  expect_error([&] { tw::average(world(), *norm); },
               "rank 1 has 'num_batches_tracked int64 [], 7' where rank 0 has 'num_batches_tracked int64 [], 4'");
  EXPECT_TRUE(norm->running_mean.eq(int{world().rank()}).all().item<bool>()) << "changed although refused";
  expect_error([] { tw::average(world(), {{"mask", torch::tensor({true, world().rank() == 1})}}); }, "mask bool [2], content ");
}

TEST(SynchronizeTensors, TakesOneAndSeveral) {
  const int rank = world().rank();
  for (int root = 0; root < world().size(); ++root) {
    const auto one = torch::full({3}, rank);
    tw::synchronize(world(), one, tw::Rank(root));
    EXPECT_TRUE(one.eq(root).all().item<bool>());
    const std::vector<at::Tensor> several{torch::full({2}, rank), torch::full({3}, rank, torch::kDouble)};
    tw::synchronize(world(), several, tw::Rank(root));
    for (const auto& tensor : several) EXPECT_TRUE(tensor.eq(root).all().item<bool>());
  }
  if (world().size() == 1) return;
  expect_error([] { tw::synchronize(world(), {torch::ones({1}), torch::ones({world().rank() + 1})}); },
               "rank 1 has 'tensor 1 float32 [2]' where rank 0 has 'tensor 1 float32 [1]'");
}

TEST(SynchronizeGenerator, GivesAllRanksTheRootsNumbers) {
  for (int root = 0; root < world().size(); ++root) {
    torch::manual_seed(static_cast<uint64_t>(world().rank()));
    (void)torch::randn({static_cast<int64_t>(world().rank()) + 1});  // also leaves a cached normal number in the generator
    tw::synchronize_generator(world(), tw::Rank(root));
    const auto mine = torch::randn({5});
    torch::manual_seed(static_cast<uint64_t>(root));
    (void)torch::randn({root + 1});
    EXPECT_TRUE(mine.equal(torch::randn({5})));
  }
}

}  // namespace consistency_test
