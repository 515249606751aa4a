// SPDX-License-Identifier: Apache-2.0
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/data_parallel.hpp>

namespace synchronize_test {

using tw::testing::world;

/// Parameters, and buffers of two dtypes, one of them 0-dimensional.
struct Net : torch::nn::Module {
  explicit Net(int rank) {
    register_module("linear", torch::nn::Linear(4, 3));
    norm = register_module("norm", torch::nn::BatchNorm1d(3));
    for (auto& p : parameters()) p.data().fill_(rank + 1);
    for (auto& b : buffers()) b.fill_(10 * (rank + 1));
    register_buffer("strided", torch::full({2, 3}, rank).t());
  }
  torch::nn::BatchNorm1d norm{nullptr};
};

TEST(Synchronize, CopiesParametersAndBuffersOfTheRoot) {
  for (int root = 0; root < world().size(); ++root) {
    Net net(world().rank());
    tw::synchronize(world(), net, tw::Rank(root));
    for (const auto& p : net.parameters()) EXPECT_TRUE(p.eq(root + 1).all().item<bool>());
    EXPECT_TRUE(net.norm->running_mean.eq(10 * (root + 1)).all().item<bool>());
    EXPECT_EQ(net.norm->num_batches_tracked.item<int64_t>(), 10 * (root + 1));
    EXPECT_TRUE(net.named_buffers()["strided"].eq(root).all().item<bool>());
    EXPECT_TRUE(net.parameters().front().requires_grad());
  }
}

TEST(Synchronize, IsWhatDataParallelBeginsWith) {
  Net net(world().rank());
  const tw::DataParallel parallel(world(), net, {.reduction = tw::Reduction::mean});
  for (const auto& p : net.parameters()) EXPECT_TRUE(p.eq(1).all().item<bool>());
  EXPECT_EQ(net.norm->num_batches_tracked.item<int64_t>(), 10);
}

TW_TEST_ON(Synchronize, RefusesTensorsThatDiffer, {.least = 2}) {  // one rank agrees with itself
  const auto tensor = torch::ones({world().rank() == 1 ? 2 : 3});
  EXPECT_THROW(tw::synchronize(world(), {{"t", tensor}}), tw::ContractError);
}

TEST(Synchronize, TakesNothing) { EXPECT_NO_THROW(tw::synchronize(world(), std::vector<tw::NamedTensor>{})); }

TEST(AllreduceGradients, ReducesAndMakesWhatIsMissing) {
  const auto a = torch::ones({3}, torch::requires_grad());
  const auto on_rank_0 = torch::ones({2}, torch::requires_grad());
  const auto never = torch::ones({2}, torch::requires_grad());
  const auto frozen = torch::ones({2});
  at::Tensor loss = (a * (world().rank() + 1)).sum();
  if (world().rank() == 0) loss = loss + 5 * on_rank_0.sum();
  loss.backward();
  const void* place = a.grad().data_ptr();
  const std::vector<tw::NamedTensor> parameters{{"a", a}, {"on_rank_0", on_rank_0}, {"never", never}, {"frozen", frozen}};
  tw::allreduce_gradients(world(), parameters, tw::Reduction::sum);
  EXPECT_EQ(a.grad().data_ptr(), place);
  EXPECT_TRUE(a.grad().eq(world().size() * (world().size() + 1) / 2).all().item<bool>());
  EXPECT_TRUE(on_rank_0.grad().eq(5).all().item<bool>());
  EXPECT_FALSE(never.grad().defined());
}

TEST(AllreduceGradients, TakesAModulesParametersAndSampleWeights) {
  torch::nn::Linear layer(2, 1);
  const int64_t samples = world().rank() + 1;
  layer->forward(torch::full({samples, 2}, int{world().rank()}, torch::kFloat)).mean().backward();
  tw::allreduce_gradients(world(), layer->named_parameters(), tw::Reduction::sample_weighted, samples);
  double weighted = 0;
  double all = 0;
  for (int rank = 0; rank < world().size(); ++rank) {
    weighted += static_cast<double>(rank) * (rank + 1);
    all += rank + 1;
  }
  EXPECT_NEAR(layer->weight.grad()[0][0].item<double>(), weighted / all, 1e-6);  // floats of about 1, four roundings of 6e-8
}

}  // namespace synchronize_test
