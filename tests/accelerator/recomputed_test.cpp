// SPDX-License-Identifier: Apache-2.0
// Recomputation with backward passes on autograd's own threads, and random numbers from the devices' generators.
#include "accelerator.hpp"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mutex>
#include <set>
#include <thread>
#include <tw/autograd/recomputed.hpp>
#include <tw/base/error.hpp>

#include "message_of.hpp"

namespace accelerator_recomputed_test {

namespace accelerator = tw::testing::accelerator;

[[maybe_unused]] const bool installed = (accelerator::install(2), true);

// On a device that is not the current one.
TEST(AcceleratorRecomputed, EqualsThePlainCallToTheBit) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const at::Tensor weight = torch::randn({6, 6}, torch::kDouble).to(accelerator::device(1)).requires_grad_();
  const at::Tensor start = torch::randn({5, 6}, torch::kDouble).to(accelerator::device(1));
  const auto f = [&](const at::Tensor& h) {
    EXPECT_TRUE(at::GradMode::is_enabled());
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    const std::scoped_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
    return torch::dropout(h.mm(weight).tanh(), 0.5, true);
  };
  const auto results = [&](bool again) {
    torch::manual_seed(3);
    at::Generator(at::globalContext().defaultGenerator(accelerator::device(1))).set_current_seed(5);
    const at::Tensor x = start.clone().requires_grad_();
    weight.mutable_grad() = at::Tensor();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::Tensor y = x;
    for (int i = 0; i < 3; ++i) y = again ? tw::recomputed(f, y) : f(y);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    y.square().sum().backward();
    const at::Tensor next = torch::empty({4}, start.options()).uniform_();
    return std::vector<at::Tensor>{y.detach().cpu(), x.grad().cpu(), weight.grad().cpu(), next.cpu()};
  };
  const std::vector<at::Tensor> expected = results(false);
  EXPECT_EQ(threads.size(), 1);
  const std::vector<at::Tensor> found = results(true);
  EXPECT_EQ(threads.size(), 2);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

// Nodes made by the engine's threads cannot be distinguished from earlier nodes.
TEST(AcceleratorRecomputed, AFunctionThatDifferentiatesIsRefused) {
  const at::Tensor weight = torch::randn({6, 6}, torch::kDouble).to(accelerator::device()).requires_grad_();
  const at::Tensor x = torch::randn({5, 6}, torch::kDouble).to(accelerator::device()).requires_grad_();
  const at::Tensor y =
      tw::recomputed([&](const at::Tensor& h) { return torch::autograd::grad({h.mm(weight).tanh().sum()}, {h}, {}, true, true)[0]; }, x);
  EXPECT_NE(tw::testing::message_of<tw::ContractError>([&] { y.square().sum().backward(); }).find("second run"), std::string::npos);
}

}  // namespace accelerator_recomputed_test
