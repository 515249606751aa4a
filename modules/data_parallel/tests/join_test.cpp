// SPDX-License-Identifier: Apache-2.0
// Ranks with unequal numbers of batches, of unequal sizes, against one process that sees the union of each step's samples, in float64:
// |ours - reference| <= 1e-12 |reference| in the 2-norm of each parameter. Tolerance: the order of summation differs, about 1e-15 a step; Adam keeps
// relative differences; at most 10 smooth steps make at most 1e-13.
#include "training.hpp"

#include <algorithm>
#include <tw/data_parallel.hpp>

namespace join_test {

using tw::Reduction;
using namespace tw::testing;

/// @param batches per rank.
void expect_equals_one_process(Reduction reduction, const std::vector<int64_t>& batches) {
  const int64_t longest = *std::max_element(batches.begin(), batches.end());
  Net reference = make_net();
  torch::optim::Adam reference_optimizer(reference->parameters(), 1e-3);
  for (int64_t step = 0; step < longest; ++step) {
    reference_optimizer.zero_grad();
    loss_of(reference, union_of(batches, step), reduction).backward();
    reference_optimizer.step();
  }

  const int rank = world().rank();
  const int64_t mine = batches[static_cast<size_t>(rank)];
  Net ours = make_net();
  torch::optim::Adam optimizer(ours->parameters(), 1e-3);
  tw::DataParallel parallel(world(), *ours, {.reduction = reduction});
  int64_t batch = -1;
  int64_t with_input = 0;
  int64_t calls = 0;
  const int64_t steps = tw::join(
      world(), [&] { return ++batch < mine; },
      [&](bool has_input) {
        EXPECT_EQ(has_input, calls++ < mine);
        const Samples samples = has_input ? batch_of(rank, batch) : Samples{};
        with_input += has_input;
        parallel.set_samples(samples.inputs.size(0));
        optimizer.zero_grad();
        loss_of(ours, samples, reduction).backward();
        optimizer.step();
      });
  EXPECT_EQ(steps, longest);
  EXPECT_EQ(calls, longest);
  EXPECT_EQ(with_input, mine);
  EXPECT_EQ(batch, mine) << "next() was called after it had said no";
  expect_near(ours, reference, tw::concat(longest, " steps"));
}

void expect_equals_one_process(const std::vector<int64_t>& batches) {
  expect_equals_one_process(Reduction::sample_weighted, batches);
  expect_equals_one_process(Reduction::sum, batches);
}

// 2,001 samples in batches of 40: a last batch of one sample would leave all but one rank without samples.
TEST(FiveLines, AllRanksLeaveTheLoopTogether) {
  const auto data = torch::data::datasets::TensorDataset({torch::ones({2001, 3})}).map(torch::data::transforms::Stack<torch::data::TensorExample>());
  torch::nn::Linear net(3, 1);
  const tw::DataParallel parallel(world(), *net, {.reduction = Reduction::mean});
  auto loader = torch::data::make_data_loader(data, tw::DistributedSampler(2001, world().size(), world().rank()), 40);
  for (int epoch = 0; epoch < 2; ++epoch) {
    int64_t samples = 0;
    for (auto& batch : *loader) {
      net->forward(batch.data).sum().backward();
      samples += batch.data.size(0);
    }
    const at::Tensor seen = torch::tensor(samples);
    tw::allreduce(world(), seen, tw::ReduceOp::sum);
    EXPECT_EQ(seen.item<int64_t>(), 2001);
  }
}

std::vector<int64_t> for_ranks(const std::function<int64_t(int)>& count) {
  std::vector<int64_t> batches;
  for (int rank = 0; rank < world().size(); ++rank) batches.push_back(count(rank));
  return batches;
}

TEST(Join, EqualsOneProcessWithUnevenInputs) {
  expect_equals_one_process(for_ranks([](int) { return 4; }));
  expect_equals_one_process(for_ranks([](int rank) { return 3 + 2 * rank; }));
  expect_equals_one_process(for_ranks([](int rank) { return 8 - 2 * rank; }));
}

TEST(Join, EqualsOneProcessWithRanksThatHaveNothing) {
  const int last = world().size() - 1;
  expect_equals_one_process(for_ranks([&](int rank) { return rank == last ? 5 : 0; }));
  expect_equals_one_process(for_ranks([&](int rank) { return rank == last && last > 0 ? 0 : 5; }));
}

TEST(Join, MakesNoStepWithoutAnyInput) {
  int64_t asked = 0;
  const int64_t steps = tw::join(
      world(),
      [&] {
        ++asked;
        return false;
      },
      [](bool) { ADD_FAILURE() << "a step"; });
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(asked, 1);
}

// join works with any strategy, here LocalSgd, whose averages would wait forever for a rank that makes fewer steps.
TEST(Join, MatchesTheCollectivesOfLocalSgd) {
  Net net = make_net();
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  tw::LocalSgd local(world(), *net, {.period = 2});
  const int rank = world().rank();
  int64_t batch = -1;
  int64_t averages = 0;
  (void)tw::join(
      world(), [&] { return ++batch < 3 + 2 * rank; },
      [&](bool has_input) {
        if (has_input) {
          optimizer.zero_grad();
          loss_of(net, batch_of(rank, batch), Reduction::mean).backward();
          optimizer.step();
        }
        averages += local.step();
      });
  averages += local.finish();
  EXPECT_EQ(averages, world().size() + 1);  // from 1 + 2 size steps
  EXPECT_TRUE(tw::check_consistent(world(), *net).consistent);
}

}  // namespace join_test
