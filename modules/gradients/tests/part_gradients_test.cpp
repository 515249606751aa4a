// SPDX-License-Identifier: Apache-2.0
// Guarded gradients: what combines their elements throws, everything else works as on unguarded ones.
#include "message_of.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/autograd/weight_gradients.hpp>
#include <tw/gradients/part_gradients.hpp>

namespace part_gradients_test {

using tw::testing::message_of;

at::Tensor matrix() { return torch::arange(1.0, 7.0, torch::kDouble).reshape({3, 2}).set_requires_grad(true); }

void pass(const at::Tensor& w) { w.square().sum().backward(); }

void expect_error(const std::string& text, const std::function<void()>& call) {
  const std::string error = message_of(call);
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

void expect_guarded(const at::Tensor& w, const std::string& clip) {
  expect_error("clip by " + clip + ";", [&] { torch::nn::utils::clip_grad_norm_({w}, 1.0); });
  torch::optim::LBFGS lbfgs({w});
  expect_error("(LBFGS)", [&] { lbfgs.step([] { return torch::zeros({}); }); });
}

TEST(PartGradients, RefuseWhatCombinesElements) {
  const at::Tensor w = matrix();
  tw::guard_gradient(w, "another call");
  for (const bool sets_to_none : {true, false}) {
    torch::optim::SGD sgd({w}, 0.0);
    sgd.zero_grad(sets_to_none);
    pass(w);
    expect_guarded(w, "another call");
    pass(w);  // adds to a guarded gradient
    expect_guarded(w, "another call");
    EXPECT_TRUE(w.grad().equal(4 * w));
    EXPECT_NEAR(torch::linalg_vector_norm(w.grad()).item<double>(), (4 * w).norm().item<double>(), 1e-12);
  }
}

TEST(PartGradients, AreUpdatedLikeOthers) {
  const at::Tensor plain = matrix();
  const at::Tensor guarded = matrix();
  tw::guard_gradient(guarded, "another call");
  for (const at::Tensor& w : {plain, guarded}) {
    torch::optim::AdamW adam({w}, 0.1);
    for (int step = 0; step < 3; ++step) {
      adam.zero_grad(step == 0);
      pass(w);
      torch::nn::utils::clip_grad_value_({w}, 5.0);
      adam.step();
    }
  }
  EXPECT_TRUE(guarded.equal(plain));
}

TEST(PartGradients, MayExistBeforeTheirGuard) {
  const at::Tensor w = matrix();
  EXPECT_FALSE(tw::has_guarded_gradient(w));
  pass(w);
  tw::guard_gradient(w, "one call");
  EXPECT_TRUE(tw::has_guarded_gradient(w));
  expect_guarded(w, "one call");
  tw::guard_gradient(w, "another call");
  expect_guarded(w, "another call");
}

TEST(PartGradients, ShareTheMemoryOfWhatIsSet) {
  const at::Tensor plain = matrix();
  const at::Tensor guarded = matrix();
  tw::guard_gradient(guarded, "another call");
  for (const at::Tensor& w : {plain, guarded}) {
    const at::Tensor buffer = torch::zeros({8}, torch::kDouble).narrow(0, 2, 6).view({3, 2});
    tw::set_gradient(w, buffer);
    EXPECT_TRUE(tw::gradient_of(w).is_same(buffer));
    pass(w);
    EXPECT_TRUE(buffer.equal(2 * w));
    EXPECT_TRUE(tw::gradient_of(w).is_same(buffer));
    tw::set_gradient(w, at::Tensor());
    EXPECT_FALSE(w.grad().defined());
    EXPECT_FALSE(tw::gradient_of(w).defined());
  }
}

// Gradients that a backward pass in two halves adds, and those of parameters that are converted later.
TEST(PartGradients, AreGuardedWhoeverAddsThem) {
  const at::Tensor w = matrix();
  tw::guard_gradient(w, "another call");
  tw::WeightGradients later;
  const at::Tensor x = torch::ones({4, 3}, torch::kDouble).set_requires_grad(true);
  later.record({x}, {w}, [](const auto& inputs, const auto& weights) { return at::mm(inputs[0], weights[0]); }).sum().backward();
  later.accumulate();
  expect_guarded(w, "another call");
  w.mutable_grad() = at::Tensor();
  at::Tensor(w).set_data(w.detach().to(torch::kFloat));
  pass(w);
  EXPECT_EQ(w.grad().scalar_type(), torch::kFloat);
  expect_guarded(w, "another call");
}

TEST(PartGradients, AreFreeAfterTheirParameter) {
  at::Tensor gradient;
  {
    const at::Tensor w = matrix();
    tw::guard_gradient(w, "another call");
    pass(w);
    gradient = w.grad();
  }
  EXPECT_GT(gradient.norm().item<double>(), 0);
}

TEST(PartGradients, AreNotGuardedIfSparseOrDifferentiable) {
  const at::Tensor w = matrix();
  tw::guard_gradient(w, "another call");
  torch::embedding(w, torch::tensor({2, 0}), -1, false, /*sparse=*/true).sum().backward();
  EXPECT_TRUE(w.grad().is_sparse());
  EXPECT_TRUE(w.grad().to_dense().equal(torch::tensor({{1.0, 1.0}, {0.0, 0.0}, {1.0, 1.0}}, torch::kDouble)));
  w.mutable_grad() = at::Tensor();
  w.pow(3).sum().backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  EXPECT_TRUE(torch::autograd::grad({w.grad().sum()}, {w}).front().allclose(6 * w));
  w.mutable_grad() = at::Tensor();  // refers to the parameter
}

}  // namespace part_gradients_test
