// SPDX-License-Identifier: Apache-2.0
// DistributedOptimizer and join against one process that sees all samples, in float64: |ours - reference| <= 1e-12 |reference| in the 2-norm of each
// parameter. Tolerance: the order of summation differs, about 1e-15 a step; Adam keeps relative differences; 20 smooth steps make at most 1e-13.
#include "training.hpp"

#include <memory>
#include <tw/data_parallel.hpp>

namespace distributed_optimizer_test {

using tw::Reduction;
using namespace tw::testing;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Net& net, bool adam) {
  if (adam) return std::make_unique<torch::optim::Adam>(net->parameters(), 1e-3);
  return std::make_unique<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9));
}

int my_rank() { return world().rank(); }

TEST(DistributedOptimizer, EqualsOneProcess) {
  const std::vector<int64_t> all_batches(static_cast<size_t>(world().size()), 1000);
  for (const Reduction reduction : {Reduction::sum, Reduction::sample_weighted}) {
    for (const bool to_none : {true, false}) {
      for (const bool adam : {false, true}) {
        Net reference = make_net();
        Net ours = make_net_of_rank();
        const auto reference_optimizer = make_optimizer(reference, adam);
        const auto inner = make_optimizer(ours, adam);
        tw::DistributedOptimizer optimizer(world(), *inner, *ours,
                                           {.reduction = reduction, .buckets = {.first_bucket_bytes = 512, .bucket_bytes = 2048}});
        EXPECT_GT(optimizer.plan().buckets.size(), 1U);
        for (int64_t step = 0; step < 20; step += 2) {  // two backward passes per step
          reference_optimizer->zero_grad();
          optimizer.zero_grad(to_none);
          if (reduction == Reduction::sum) {
            for (int64_t pass = 0; pass < 2; ++pass) {
              loss_of(reference, union_of(all_batches, step + pass), reduction).backward();
              loss_of(ours, batch_of(my_rank(), step + pass), reduction).backward();
            }
          } else {
            const Samples mine = batch_of(my_rank(), step);
            optimizer.set_samples(mine.inputs.size(0));
            loss_of(reference, union_of(all_batches, step), reduction).backward();
            loss_of(ours, mine, reduction).backward();
          }
          reference_optimizer->step();
          optimizer.step();
        }
        expect_near(ours, reference, adam ? "adam" : "sgd");
        EXPECT_GT(optimizer.exposed_time().count(), 0);
      }
    }
  }
}

at::Tensor parameter() { return torch::ones({3}, torch::requires_grad()); }

TEST(DistributedOptimizer, TakesWhatIsMissingAsZeroAndLeavesWhatNobodyHas) {
  const auto everywhere = parameter();
  const auto on_rank_0 = parameter();
  const auto never = parameter();
  const auto frozen = torch::full({2}, my_rank());
  torch::optim::SGD sgd({everywhere, on_rank_0, never}, torch::optim::SGDOptions(1).weight_decay(0.5));
  tw::DistributedOptimizer optimizer(world(), sgd, {{"everywhere", everywhere}, {"on_rank_0", on_rank_0}, {"never", never}, {"frozen", frozen}},
                                     {.reduction = Reduction::mean});
  EXPECT_TRUE(frozen.eq(0).all().item<bool>());
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    EXPECT_FALSE(everywhere.grad().defined());
    at::Tensor loss = (everywhere * (my_rank() + 1)).sum();
    if (my_rank() == 0) loss = loss + on_rank_0.sum() * world().size();
    loss.backward();
    EXPECT_TRUE(everywhere.grad().eq(my_rank() + 1).all().item<bool>()) << "the backward pass is the user's own";
    optimizer.step();
    EXPECT_TRUE(everywhere.grad().allclose(torch::full({3}, (world().size() + 1) / 2.0)));
    EXPECT_TRUE(on_rank_0.grad().allclose(torch::ones({3})));
    EXPECT_FALSE(never.grad().defined());
  }
  EXPECT_TRUE(never.eq(1).all().item<bool>()) << "weight decay without a gradient";
  EXPECT_TRUE(on_rank_0.allclose(torch::full({3}, (1 - 0.5 - 1) * 0.5 - 1.0)));
}

TEST(DistributedOptimizer, RefusesAnOptimizerOfOtherParameters) {
  const auto mine = parameter();
  const auto another = parameter();
  torch::optim::SGD sgd({mine, another}, 0.1);
  expect_error([&] { tw::DistributedOptimizer(world(), sgd, {{"mine", mine}}, {.reduction = Reduction::mean}); },
               "the optimizer was built over different parameters: parameter 1 of group 0 (float32 [3]) is not one of the 1 named parameters");
  if (world().size() == 1) return;
  const auto& named = my_rank() == 1 ? mine : another;
  torch::optim::SGD of_one({another}, 0.1);
  expect_error(
      [&] { tw::DistributedOptimizer(world(), of_one, {{"p", named}}, {.reduction = Reduction::mean}); },
      "making a DistributedOptimizer failed on rank 1 of 'world/dup/dup': the optimizer was built over different parameters: parameter 0 of group 0 "
      "(float32 [3]) is not one of the 1 named parameters");
}

TEST(DistributedOptimizer, RefusesWhatDiffersBetweenRanksAndNoSamples) {
  const auto p = parameter();
  torch::optim::SGD sgd({p}, 0.1);
  tw::DistributedOptimizer weighted(world(), sgd, {{"p", p}}, {.reduction = Reduction::sample_weighted});
  expect_error([&] { weighted.step(); }, "needs set_samples() before the step");
  expect_error([&] { weighted.set_samples(-1); }, "a rank cannot have -1 samples");
  if (world().size() == 1) return;
  const auto reduction = my_rank() == 1 ? Reduction::sum : Reduction::mean;
  expect_error([&] { tw::DistributedOptimizer(world(), sgd, {{"p", p}}, {.reduction = reduction}); },
               "rank 1 has 'reduction sum' where rank 0 has 'reduction mean'");
}

// A sum would count each gradient once per rank.
TEST(DistributedOptimizer, IsNotForWhatADataParallelReduces) {
  const auto p = torch::ones({3}, torch::requires_grad());
  torch::optim::SGD sgd({p}, 0.1);
  tw::DistributedOptimizer optimizer(world(), sgd, {{"p", p}}, {.reduction = tw::Reduction::sum});
  {
    const tw::DataParallel parallel(world(), {{"p", p}}, {.reduction = tw::Reduction::sum});
    p.sum().backward();
    tw::testing::expect_error([&] { optimizer.step(); }, "the gradient of p is already reduced by a DataParallel");
  }
  optimizer.step();
}

}  // namespace distributed_optimizer_test
