// SPDX-License-Identifier: Apache-2.0
// When recomputed functions run, in which modes, what they refuse, and what state they leave. Their values: recomputed_values_test.cpp
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <stdexcept>
#include <thread>
#include <tw/autograd/recomputed.hpp>
#include <tw/base/error.hpp>

#include "message_of.hpp"
#include "plain_call.hpp"

namespace recomputed_test {

using tw::recomputed;
using tw::testing::message_of;
using tw::testing::Plain;
using tw::testing::Recomputed;
using Tensors = std::vector<at::Tensor>;

TEST(Recomputed, BackwardPassesMayFollowEachOtherIfTheGraphIsRetained) {
  int runs = 0;
  const at::Tensor x = torch::arange(3, at::kDouble).requires_grad_();
  const at::Tensor loss = recomputed(
                              [&](const at::Tensor& h) {
                                ++runs;
                                return h.square() * h;
                              },
                              x)
                              .sum();
  EXPECT_EQ(runs, 1);
  loss.backward({}, true);
  EXPECT_EQ(runs, 2);
  loss.backward();
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(x.grad().equal(6 * x.detach().square()));
  EXPECT_THROW(loss.backward(), std::exception);
  EXPECT_EQ(runs, 3);
}

TEST(Recomputed, AHookOfAParameterSeesTheSumOnce) {
  const at::Tensor weight = torch::ones({2}, at::kDouble).requires_grad_();
  int calls = 0;
  weight.register_hook([&](const at::Tensor& gradient) {
    ++calls;
    return gradient * 10;
  });
  const auto f = [&](const at::Tensor& h) { return h * weight * weight; };
  const at::Tensor x = torch::ones({2}, at::kDouble).requires_grad_();
  int of_input = 0;
  x.register_hook([&](const at::Tensor&) { ++of_input; });
  recomputed(f, recomputed(f, x)).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(of_input, 1);
  EXPECT_TRUE(weight.grad().equal(torch::full({2}, 40.0, at::kDouble)));
}

TEST(Recomputed, IsAPlainCallWithoutGradMode) {
  int runs = 0;
  at::Tensor x = torch::ones({2}).requires_grad_();
  const auto f = [&](const at::Tensor& h) {
    ++runs;
    return h.clone().mul_(2);
  };
  {
    const torch::NoGradGuard no_gradients;
    EXPECT_FALSE(recomputed(f, x).requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(recomputed(f, torch::ones({2})).is_inference());
  }
  EXPECT_EQ(runs, 2);
}

// If the function or an input is a module, its buffers stay as the first run left them; they equal the plain call's.
TEST(Recomputed, RunningStatisticsOfModulesThatItKnowsAreUpdatedOnce) {
  const auto after_a_step = [](int way) {
    torch::manual_seed(1);
    torch::nn::BatchNorm1d norm(3);
    const at::Tensor x = torch::randn({8, 3}).requires_grad_();
    const auto forward = [](const at::Tensor& h, torch::nn::BatchNorm1d of) { return of(h); };
    at::Tensor y;
    if (way == 0) y = norm(x);
    if (way == 1) y = recomputed(norm, x);
    if (way == 2) y = recomputed(forward, x, norm);
    if (way == 3) y = recomputed([&](const at::Tensor& h, torch::nn::BatchNorm1dImpl& of) { return of.forward(h); }, x, std::ref(*norm));
    if (way == 4) y = recomputed([&](const at::Tensor& h) { return norm(h); }, x);
    (y * torch::arange(3)).square().sum().backward();
    return Tensors{y.detach(), x.grad(), norm->weight.grad(), norm->running_mean, norm->running_var, norm->num_batches_tracked};
  };
  const Tensors expected = after_a_step(0);
  for (const int way : {1, 2, 3, 4}) {
    const Tensors found = after_a_step(way);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].equal(expected[i]), way < 4 || i < 3) << "way " << way << ", tensor " << i;
  }
}

TEST(Recomputed, RunsInTheAutocastModesOfTheFirstTime) {
  const auto gradients = [](const auto& call, bool cache) {
    torch::manual_seed(1);
    torch::nn::Linear layer(8, 8);
    const at::Tensor x = torch::randn({4, 8}).requires_grad_();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(cache);
    at::autocast::increment_nesting();
    const auto f = [&](const at::Tensor& h) {
      EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
      EXPECT_EQ(at::autocast::is_autocast_cache_enabled(), cache);
      return layer(h);
    };
    const at::Tensor before = layer(x);  // caches the cast of the weight
    const at::Tensor y = call(f, call(f, before));
    at::autocast::decrement_nesting();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_cache_enabled(true);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    y.to(at::kFloat).sum().backward();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    return Tensors{x.grad(), layer->weight.grad()};
  };
  for (const bool cache : {false, true}) {
    const Tensors expected = gradients(Plain(), false);  // with a cache it sums in half precision
    const Tensors found = gradients(Recomputed(), cache);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << "cache " << cache << ", tensor " << i;
  }
}

TEST(Recomputed, AnExceptionOfTheSecondRunPassesThroughAndLeavesNoTrace) {
  bool fails = false;
  const at::Tensor x = torch::ones({3}).requires_grad_();
  torch::nn::BatchNorm1d norm(1);
  const auto f = [&](const at::Tensor& h, const torch::nn::BatchNorm1d& of) {
    const at::Tensor y = torch::dropout(torch::nn::BatchNorm1d(of)(h.unsqueeze(1)), 0.5, true);
    if (fails) throw std::out_of_range("the second time");
    return y;
  };
  const at::Tensor y = recomputed(f, x, norm);
  const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
  const at::Tensor mean = norm->running_mean.clone();
  fails = true;
  EXPECT_THROW(y.sum().backward(), std::out_of_range);
  EXPECT_TRUE(at::globalContext().defaultGenerator(at::kCPU).get_state().equal(state));
  EXPECT_TRUE(norm->running_mean.equal(mean));
  EXPECT_TRUE(at::GradMode::is_enabled());
  EXPECT_FALSE(x.grad().defined());
  fails = false;
  y.sum().backward();  // nothing was freed
  EXPECT_TRUE(x.grad().defined());
}

void expect_part(const std::string& message, const std::string& part) { EXPECT_NE(message.find(part), std::string::npos) << message; }

TEST(Recomputed, RefusesInputsThatChange) {
  const at::Tensor leaf = torch::ones({3}).requires_grad_();
  const at::Tensor x = leaf * 1;
  const at::Tensor constant = torch::ones({3});
  expect_part(message_of<tw::ContractError>([&] { recomputed([](const at::Tensor&, at::Tensor h) { return h.mul_(2); }, constant, x); }),
              "tensor 1 of its inputs in place");
  const at::Tensor z = leaf * 1;
  at::Tensor y = recomputed([](const at::Tensor& c, const at::Tensor& h) { return (h * c).sin(); }, constant, z);
  z.mul_(2);
  expect_part(message_of<tw::ContractError>([&] { y.sum().backward(); }), "tensor 1 of the inputs");
  y = recomputed([](const std::vector<at::Tensor>& of) { return (of[1] * of[0]).sin(); }, Tensors{constant, leaf});
  constant.add_(1);
  expect_part(message_of<tw::ContractError>([&] { y.sum().backward(); }), "tensor 0 of the inputs");
  y = recomputed([&](const at::Tensor& h) { return h * leaf; }, constant);
  {
    const torch::NoGradGuard no_gradients;
    leaf.add_(1);
  }
  expect_part(message_of<tw::ContractError>([&] { y.sum().backward(); }), "a parameter");
}

TEST(Recomputed, RefusesASecondRunThatDiffers) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  const at::Tensor w = torch::ones({3}).requires_grad_();
  const auto message = [&](auto first, auto second) {
    bool again = false;
    const auto y = recomputed(
        [&](const at::Tensor& h) {
          const Tensors outputs = again ? second(h) : first(h);
          again = true;
          return outputs;
        },
        x);
    return message_of<tw::ContractError>([&] { y[0].sum().backward(); });
  };
  const auto plain = [](const at::Tensor& h) { return Tensors{h.sin()}; };
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin(), h}; }), "has 2 outputs, but the first had 1");
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin().narrow(0, 0, 2)}; }), "[2]");
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin().to(at::kDouble)}; }), "float64");
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin().detach()}; }), "requires a gradient");
  expect_part(message(plain, [](const at::Tensor&) { return Tensors{at::Tensor()}; }), "undefined");
  expect_part(message(plain, [&](const at::Tensor& h) { return Tensors{h * w}; }), "has 1 leaves of its own, expected 0");
  expect_part(message([&](const at::Tensor& h) { return Tensors{h * w}; }, plain), "does not depend on all");
  EXPECT_EQ(message(plain, plain), "nothing thrown");
}

TEST(Recomputed, FunctionsThatCannotBeCopiedAreWelcome) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  recomputed([factor = std::make_unique<double>(3)](const at::Tensor& h) { return h * *factor; }, x).sum().backward();
  EXPECT_TRUE(x.grad().equal(torch::full({3}, 3.0)));
}

TEST(Recomputed, WhatTheFunctionHoldsIsFreedByTheBackwardPassOrWithTheGraph) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  const auto alive = std::make_shared<int>(0);
  const at::Tensor y = recomputed([alive](const at::Tensor& h) { return h.sin(); }, x).sum();
  EXPECT_EQ(alive.use_count(), 2);
  y.backward();
  EXPECT_EQ(alive.use_count(), 1);
  recomputed([alive](const at::Tensor& h) { return h.sin(); }, x);
  EXPECT_EQ(alive.use_count(), 1);
}

// Must not recurse as deep as the graph.
TEST(Recomputed, AGraphOfManySegmentsIsFreedAndPassed) {
  const at::Tensor x = torch::ones({1}).requires_grad_();
  for (const bool passes : {false, true}) {
    at::Tensor y = x;
    for (int i = 0; i < 20000; ++i) y = recomputed([](const at::Tensor& h) { return h + 1; }, y);
    if (passes) y.backward();
  }
  EXPECT_EQ(x.grad().item<float>(), 1);
}

// Beyond that depth another engine thread continues.
TEST(Recomputed, NestedDeeperThanTheEngineNestsOnOneThread) {
  std::set<std::thread::id> threads;
  std::function<at::Tensor(const at::Tensor&, int)> deep = [&](const at::Tensor& h, int depth) {
    threads.insert(std::this_thread::get_id());
    EXPECT_TRUE(at::GradMode::is_enabled() && at::autocast::is_autocast_enabled(at::kCPU));
    return depth == 0 ? torch::dropout(h.exp(), 0.5, true) : recomputed(deep, h * 1, depth - 1);
  };
  const auto gradient = [&](int depth) {
    torch::manual_seed(1);
    const at::Tensor x = torch::ones({16}, at::kDouble).requires_grad_();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = deep(x, depth).sum();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    y.backward();
    return x.grad();
  };
  const at::Tensor expected = gradient(0);
  EXPECT_EQ(threads.size(), 1);
  EXPECT_TRUE(gradient(70).equal(expected));
  EXPECT_GT(threads.size(), 1);
}

}  // namespace recomputed_test
