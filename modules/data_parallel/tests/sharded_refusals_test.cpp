// SPDX-License-Identifier: Apache-2.0
// What FullySharded refuses, and that it says on every rank which parameter or rank it is.
#include "message_of.hpp"
#include "sharded_training.hpp"

namespace sharded_refusals_test {

using namespace tw::testing::sharded;
using tw::testing::message_of;
using tw::testing::world;

TEST(ShardedRefusals, NamesAParameterWhosePointerIsTaken) {
  ShardedNet f;
  f.loss().backward();
  EXPECT_NE(message_of([&] { f.parameter("3.weight").data_ptr(); }).find("3.weight"), std::string::npos);
  f.optimizer.step();
  f.loss().backward();
}

TEST(ShardedRefusals, NamesAParameterThatWasChangedInPlace) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto net = plain().make();
    tw::FullySharded sharded(world(), *net, options);
    {
      const at::NoGradGuard no_grad;
      net->named_parameters()["0.weight"].mul_(2);
    }
    const std::string error = message_of([&] { plain().loss(*net, my_samples(0), 0).backward(); });
    EXPECT_NE(error.find("0.weight was changed in place"), std::string::npos) << error;
  }
}

TW_TEST_ON(ShardedRefusals, NamesRanksWhoseOptionsDiffer, {.least = 2}) {
  const auto net = plain().make();
  const int64_t unit_bytes = world().rank() == 1 ? 100 : 200;
  const std::string error = message_of([&] { tw::FullySharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = unit_bytes}); });
  EXPECT_NE(error.find("unit_bytes"), std::string::npos) << error;
}

TEST(ShardedRefusals, RefusesSparseGradientsAndParametersThatComeLater) {
  torch::nn::Sequential sparse(torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 3).sparse(true)), torch::nn::Linear(3, 2));
  const std::string error = message_of([&] { tw::FullySharded(world(), *sparse, {.reduction = tw::Reduction::mean}); });
  EXPECT_NE(error.find("sparse gradients cannot be sharded: 0.weight"), std::string::npos) << error;

  auto net = layers();
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
  net->register_parameter("late", torch::ones({2}));
  const std::string later = message_of([&] { net->forward(torch::ones({2, 8})).sum().backward(); });
  EXPECT_NE(later.find("late is a parameter of the module"), std::string::npos) << later;
}

// Two units of one size, which their memory does not tell apart.
TW_TEST_ON(ShardedRefusals, NamesRanksThatGoOtherWays, {.least = 2}) {
  torch::nn::Linear a(8, 8);
  torch::nn::Linear b(8, 8);
  const std::vector<tw::NamedTensor> parameters{{"a", a->weight}, {"b", b->weight}};
  tw::FullySharded sharded(world(), parameters, {.reduction = tw::Reduction::mean, .unit_bytes = 1});
  const at::Tensor x = torch::ones({2, 8});
  const bool swaps = world().rank() == 1;
  const std::string error = message_of([&] { (swaps ? a->forward(b->forward(x)) : b->forward(a->forward(x))).sum().backward(); });
  EXPECT_NE(error.find("different orders"), std::string::npos) << error;
  EXPECT_NE(error.find("rank 0: a, b"), std::string::npos) << error;
  EXPECT_NE(error.find("rank 1: b, a"), std::string::npos) << error;
}

TEST(ShardedRefusals, ValuesOutliveWhatShardedThem) {
  const auto net = plain().make();
  std::vector<at::Tensor> slices;
  {
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean});
    slices = sharded.slices();
  }
  for (const at::Tensor& slice : slices) slice.add_(1);
  const std::string error = message_of([&] { net->named_parameters()["0.weight"].clone(); });
  EXPECT_NE(error.find("what gathered it is gone"), std::string::npos) << error;
}

}  // namespace sharded_refusals_test
