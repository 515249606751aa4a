// SPDX-License-Identifier: Apache-2.0
// Models created without memory, of which each rank fills its own slices.
#include <map>

#include "message_of.hpp"
#include "sharded_training.hpp"

namespace initial_values_test {

using namespace tw::testing::sharded;
using tw::testing::message_of;
using tw::testing::world;

/// A model large enough to be created without memory.
torch::nn::Sequential large() {
  torch::nn::Sequential net(torch::nn::Embedding(300, 256), torch::nn::Linear(256, 300), torch::nn::Linear(300, 2));
  const at::NoGradGuard no_grad;
  net->named_parameters()["1.weight"].mul_(0.5);
  return net;
}

TEST(InitialValues, BuildsModelsWithoutMemory) {
  tw::InitialValues initial(7);
  auto net = initial.record(&large);
  EXPECT_TRUE(net->named_parameters()["0.weight"].is_meta());
  EXPECT_FALSE(net->named_parameters()["2.weight"].is_meta());
  std::map<std::string, at::Tensor> whole;
  for (const auto& [name, bound] : {std::pair("0.weight", 5.0), std::pair("1.weight", 0.5 / 16)}) {
    const at::Tensor parameter = net->named_parameters()[name];
    whole[name] = torch::empty({parameter.numel()});
    initial.fill(whole[name], parameter, 0, name);
    EXPECT_LE(whole[name].abs().max().item<double>(), bound);
    EXPECT_GT(std::get<0>(at::_unique(whole[name])).numel(), parameter.numel() / 2) << "blocks differ";
    const at::Tensor part = torch::empty({9000});
    initial.fill(part, parameter, 5001, name);
    EXPECT_TRUE(part.equal(whole[name].narrow(0, 5001, 9000))) << "another part is the same";
  }
  // uniform(-1/16, 1/16) / 2 has standard deviation 1/32 / sqrt(3); 76,800 samples estimate it to 0.3 %
  EXPECT_NEAR(whole["1.weight"].std().item<double>(), 1.0 / 32 / std::sqrt(3.0), 2e-4);
  tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 1 << 18}, {.initial = &initial});
  for (const auto& [name, values] : whole) EXPECT_TRUE(value_of(net->named_parameters()[name]).flatten().equal(values)) << name;
  torch::optim::SGD optimizer(sharded.slices(), 0.1);
  double first = 0;
  double last = 0;
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = net->forward(torch::arange(16)).square().mean();
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first);
}

TEST(InitialValues, NamesWhatCannotBeBuiltInParts) {
  const auto error = [](const std::function<at::Tensor()>& make) {
    tw::InitialValues initial;
    const at::Tensor weight = initial.record([&] { return make().requires_grad_(); });
    return message_of([&] { tw::FullySharded(world(), {{"weight", weight}}, {.reduction = tw::Reduction::mean}, {.initial = &initial}); });
  };
  EXPECT_EQ(error([] { return torch::randn({512, 256}); }), "nothing thrown");
  EXPECT_NE(error([] {
              const at::Tensor weight = torch::empty({512, 256});
              torch::nn::init::orthogonal_(weight);
              return weight;
            }).find("weight is filled by"),
            std::string::npos);
  tw::InitialValues initial;
  auto with_buffer = initial.record([] {
    torch::nn::Sequential net(torch::nn::Linear(2, 2));
    net->register_buffer("mask", torch::full({512, 256}, 3.0));
    return net;
  });
  tw::FullySharded sharded(world(), *with_buffer, {.reduction = tw::Reduction::mean}, {.initial = &initial});
  EXPECT_TRUE(with_buffer->named_buffers()["mask"].equal(torch::full({512, 256}, 3.0)));
  EXPECT_NE(error([] { return torch::randn({512, 256}).matmul(torch::randn({256, 256})); }).find("computed from other tensors"), std::string::npos);
  const at::Tensor lost = torch::empty({512, 256}, torch::device(torch::kMeta)).requires_grad_();
  EXPECT_NE(message_of([&] { tw::FullySharded(world(), {{"lost", lost}}, {.reduction = tw::Reduction::mean}); }).find("lost has no memory"),
            std::string::npos);
}

}  // namespace initial_values_test
