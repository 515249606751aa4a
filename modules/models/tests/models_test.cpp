// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/base/contract.hpp>
#include <tw/models.hpp>

namespace models_test {

int64_t count_parameters(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

TEST(LeNet, HasThePublishedSize) {
  tw::models::LeNet net;
  EXPECT_EQ(count_parameters(*net), 431080);
  EXPECT_EQ(net->forward(torch::randn({3, 1, 28, 28})).sizes(), (std::vector<int64_t>{3, 10}));
}

TEST(LeNet, TakesNoSamplesForwardAndBackward) {
  tw::models::LeNet net;
  net->forward(torch::randn({0, 1, 28, 28})).sum().backward();
  EXPECT_TRUE(net->parameters().front().grad().defined());
}

TEST(ConvNet, HasTheLayersGiven) {
  for (const int64_t layers : {1, 2, 10}) {
    tw::models::ConvNet net(tw::models::ConvNetOptions{.layers = layers, .channels = 4, .height = 9, .width = 6, .classes = 3});
    EXPECT_EQ(count_parameters(*net), 10 * 4 + (layers - 1) * (9 * 16 + 4) + (4 * 9 * 6 + 1) * 3);
    EXPECT_EQ(net->forward(torch::randn({5, 1, 9, 6})).sizes(), (std::vector<int64_t>{5, 3}));
    net->forward(torch::randn({0, 1, 9, 6})).sum().backward();
    EXPECT_TRUE(net->parameters().front().grad().defined());
  }
  EXPECT_THROW(tw::models::ConvNet(tw::models::ConvNetOptions{.layers = 0}), tw::ContractError);
  EXPECT_THROW(tw::models::ConvNet()->forward(torch::randn({1, 1, 27, 28})), tw::ContractError);
}

TEST(ConvNet, HasTheActivationGiven) {
  using tw::models::Activation;
  const auto x = torch::randn({2, 1, 5, 5});
  for (const Activation activation : {Activation::relu, Activation::sigmoid, Activation::tanh}) {
    tw::models::ConvNet net(tw::models::ConvNetOptions{.layers = 1, .channels = 2, .activation = activation, .height = 5, .width = 5});
    const auto p = net->named_parameters();
    const auto sums = torch::conv2d(x, p["conv0.weight"], p["conv0.bias"], 1, 1);
    const auto active = activation == Activation::relu ? sums.relu() : activation == Activation::sigmoid ? sums.sigmoid() : sums.tanh();
    EXPECT_TRUE(net->forward(x).allclose(torch::linear(active.flatten(1), p["output.weight"], p["output.bias"]), 1e-5, 1e-6));
  }
}

TEST(Mlp, HasTheWidthsGiven) {
  tw::models::Mlp net(std::vector<int64_t>{4, 7, 5, 2});
  EXPECT_EQ(count_parameters(*net), 4 * 7 + 7 + 7 * 5 + 5 + 5 * 2 + 2);
  EXPECT_EQ(net->forward(torch::randn({3, 2, 2})).sizes(), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(net->forward(torch::randn({0, 4})).sizes(), (std::vector<int64_t>{0, 2}));
  EXPECT_THROW(tw::models::Mlp(std::vector<int64_t>{4}), tw::ContractError);
}

TEST(Mlp, IsLinearWithReluBetween) {
  tw::models::Mlp net(std::vector<int64_t>{3, 4, 2});
  const auto p = net->named_parameters();
  const auto x = torch::randn({5, 3});
  const auto hidden = torch::relu(torch::linear(x, p["layer0.weight"], p["layer0.bias"]));
  EXPECT_TRUE(torch::allclose(net->forward(x), torch::linear(hidden, p["layer1.weight"], p["layer1.bias"])));
}

TEST(ResNet, HasThePublishedSizeAndLearnsStatistics) {
  tw::models::ResNet net;
  EXPECT_EQ(count_parameters(*net), 77562);
  const auto x = torch::randn({3, 1, 28, 28});
  EXPECT_EQ(net->forward(x).sizes(), (std::vector<int64_t>{3, 10}));
  EXPECT_FALSE(net->named_buffers()["norm.running_mean"].equal(torch::zeros({16})));
  net->eval();
  EXPECT_TRUE(torch::allclose(net->forward(x)[1], net->forward(x.narrow(0, 1, 1))[0], 1e-4, 1e-5));  // samples do not mix in evaluation
}

TEST(Gpt, seesThePastOnly) {
  torch::manual_seed(1);
  tw::models::Gpt net(tw::models::GptOptions{.vocabulary = 11, .context = 8, .width = 12, .heads = 3, .blocks = 2});
  // Embeddings; per block two norms, attention, its projection and an MLP of four times the width; a norm.
  EXPECT_EQ(count_parameters(*net), 11 * 12 + 8 * 12 + 2 * (4 * 12 + 4 * (12 * 12 + 12) + (12 * 48 + 48) + (48 * 12 + 12)) + 2 * 12);
  const auto tokens = torch::randint(11, {3, 8});
  auto others = tokens.clone();
  others.slice(1, 5) = (others.slice(1, 5) + 1) % 11;
  const auto logits = net->forward(tokens);
  EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{3, 8, 11}));
  const auto changed = net->forward(others);
  // The same sums in the same order, except for matrix products with different blocking: some roundings of float32 numbers below 1.
  EXPECT_TRUE(logits.slice(1, 0, 5).allclose(changed.slice(1, 0, 5), 0, 1e-6));
  EXPECT_FALSE(logits.slice(1, 5).allclose(changed.slice(1, 5), 0, 1e-3));
  EXPECT_THROW(net->forward(torch::randint(11, {3, 9})), tw::ContractError);
  EXPECT_THROW(tw::models::Gpt(tw::models::GptOptions{.width = 10, .heads = 3}), tw::ContractError);
}

}  // namespace models_test
