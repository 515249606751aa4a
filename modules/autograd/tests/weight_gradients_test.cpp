// SPDX-License-Identifier: Apache-2.0
// Backward passes in two halves give the gradients of whole ones, to the bit, and run hooks once.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/autograd/weight_gradients.hpp>
#include <tw/tensor/held_memory.hpp>

namespace weight_gradients_test {

using tw::WeightGradients;
using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string name;
  at::Tensor input;
  Tensors weights;
  WeightGradients::Operator op;
};

at::Tensor trained(at::IntArrayRef shape) { return torch::randn(shape, at::dtype(at::kDouble).requires_grad(true)); }

std::vector<Case> products() {
  torch::manual_seed(1);
  return {
      {"mm", trained({5, 4}), {trained({4, 3})}, [](const Tensors& x, const Tensors& w) { return at::mm(x[0], w[0]); }},
      {"addmm", trained({5, 4}), {trained({3}), trained({4, 3})}, [](const Tensors& x, const Tensors& w) { return at::addmm(w[0], x[0], w[1]); }},
      {"linear",
       trained({2, 5, 4}),
       {trained({3, 4}), trained({3})},
       [](const Tensors& x, const Tensors& w) { return at::linear(x[0], w[0], w[1]); }},
      {"matmul", trained({2, 5, 4}), {trained({4, 3})}, [](const Tensors& x, const Tensors& w) { return at::matmul(x[0], w[0]); }},
      {"conv2d",
       trained({2, 3, 6, 6}),
       {trained({4, 3, 3, 3}), trained({4})},
       [](const Tensors& x, const Tensors& w) { return at::conv2d(x[0], w[0], w[1]); }},
      {"embedding", torch::randint(7, {2, 5}), {trained({7, 3})}, [](const Tensors& x, const Tensors& w) { return at::embedding(w[0], x[0]); }},
  };
}

/// The gradients of inputs and weights of a small net around the operator.
Tensors gradients_of(const Case& of, const std::function<at::Tensor(const Tensors& x, const Tensors& w)>& op,
                     const std::function<void(const at::Tensor& loss)>& backward) {
  Tensors all{of.input};
  all.insert(all.end(), of.weights.begin(), of.weights.end());
  for (at::Tensor& each : all) each.mutable_grad() = at::Tensor();
  const bool goes_back = of.input.requires_grad();
  at::Tensor y = op({goes_back ? of.input.sin() : of.input}, of.weights);
  y = y.mul_(2);  // users work in place on what an operator returns
  backward(y.exp().sum());
  Tensors gradients;
  for (const at::Tensor& each : all) gradients.push_back(each.grad().defined() ? each.grad().clone() : each.grad());
  return gradients;
}

void expect_equal(const Tensors& a, const Tensors& b, const std::string& name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << name << ' ' << i;
    EXPECT_TRUE(!a[i].defined() || a[i].equal(b[i])) << name << ' ' << i << '\n' << a[i] << '\n' << b[i];
  }
}

TEST(WeightGradients, AreThoseOfOnePass) {
  for (const Case& each : products()) {
    const Tensors whole = gradients_of(each, each.op, [](const at::Tensor& loss) { loss.backward(); });
    WeightGradients later;
    const auto record = [&](const Tensors& x, const Tensors& w) { return later.record(x, w, each.op); };
    const Tensors halves = gradients_of(each, record, [&](const at::Tensor& loss) {
      EXPECT_TRUE(later.empty());
      loss.backward();
      EXPECT_FALSE(later.empty()) << each.name;
      for (const at::Tensor& weight : each.weights) EXPECT_FALSE(weight.grad().defined()) << each.name;
      EXPECT_EQ(each.input.grad().defined(), each.input.requires_grad()) << each.name;
      later.accumulate();
      EXPECT_TRUE(later.empty());
    });
    expect_equal(whole, halves, each.name);
  }
}

/// A weight that is used twice, through a view, and by an operator that is not split; and one that is frozen.
TEST(WeightGradients, OfSharedTransposedAndFrozenWeights) {
  torch::manual_seed(2);
  const at::Tensor w = trained({4, 4});
  const at::Tensor frozen = torch::randn({4, 4}, at::kDouble);
  const at::Tensor x = trained({3, 4});
  const auto net = [&](const auto& product) {
    at::Tensor y = product(x, w.t()).tanh();
    y = product(y, w.t()).tanh();
    y = product(y, frozen);
    return (y + at::mm(y, w)).sum();
  };
  net([](const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b); }).backward();
  const Tensors whole{x.grad().clone(), w.grad().clone()};
  x.mutable_grad() = at::Tensor();
  w.mutable_grad() = at::Tensor();
  WeightGradients later;
  const auto op = [](const Tensors& a, const Tensors& b) { return at::mm(a[0], b[0]); };
  net([&](const at::Tensor& a, const at::Tensor& b) { return later.record({a}, {b}, op); }).backward();
  later.accumulate();
  EXPECT_TRUE(x.grad().equal(whole[0]));
  EXPECT_LT((w.grad() - whole[1]).abs().max().item<double>(), 1e-13) << "added in another order";
}

/// As in spectral normalisation: a product makes the weight of another one.
TEST(WeightGradients, OfWeightsThatAreProducts) {
  const at::Tensor w = trained({3, 3});
  const at::Tensor v = torch::randn({3, 3}, at::kDouble);
  const at::Tensor x = trained({2, 3});
  const auto net = [&](const auto& product) { return product(x, product(v, w).tanh()).square().sum(); };
  net([](const at::Tensor& a, const at::Tensor& b) { return at::mm(a, b); }).backward();
  const at::Tensor whole = w.grad().clone();
  w.mutable_grad() = at::Tensor();
  WeightGradients later;
  net([&](const at::Tensor& a, const at::Tensor& b) {
    return later.record({a}, {b}, [](const Tensors& p, const Tensors& q) { return at::mm(p[0], q[0]); });
  }).backward();
  later.accumulate();
  EXPECT_TRUE(later.empty());
  ASSERT_TRUE(w.grad().defined());
  EXPECT_TRUE(w.grad().equal(whole));
}

TEST(WeightGradients, RunHooksOnce) {
  const at::Tensor w = trained({4, 3});
  const at::Tensor x = trained({2, 4});
  int calls = 0;
  w.register_hook([&](const at::Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  WeightGradients later;
  later.record({x}, {w}, [](const Tensors& a, const Tensors& b) { return at::mm(a[0], b[0]); }).sum().backward();
  EXPECT_EQ(calls, 0);
  later.accumulate();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(w.grad().equal(2 * x.t().mm(torch::ones({2, 3}, at::kDouble)).detach()));
}

TEST(WeightGradients, OfPassesWithoutGradientOrCotangent) {
  const at::Tensor w = trained({4, 3});
  WeightGradients later;
  const auto op = [](const Tensors& a, const Tensors& b) { return at::mm(a[0], b[0]); };
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(later.record({trained({2, 4})}, {w}, op).requires_grad());
  }
  const at::Tensor unused = later.record({trained({2, 4})}, {w}, op);
  later.accumulate();
  EXPECT_TRUE(later.empty());
  EXPECT_FALSE(w.grad().defined());
}

/// What is kept between the halves is freed as the second one goes on, so that gradients of many weights do not pile up.
TEST(WeightGradients, AreMadeOneByOne) {
  constexpr int layers = 8;
  constexpr int64_t n = 256;
  Tensors weights;
  for (int i = 0; i < layers; ++i) weights.push_back(torch::randn({n, n}, at::requires_grad()));
  const auto op = [](const Tensors& a, const Tensors& b) { return at::mm(a[0], b[0]); };
  for (at::Tensor& each : weights) each.mutable_grad() = at::zeros_like(each);  // so that a gradient that was made is added, and freed
  WeightGradients later;
  at::Tensor x = torch::randn({n, n}, at::requires_grad());
  for (const at::Tensor& each : weights) x = later.record({x}, {each.t()}, op);
  x.sum().backward();
  x = at::Tensor();
  const int64_t more = tw::peak_bytes(at::kCPU, [&] { later.accumulate(); });
  EXPECT_LE(more, int64_t{3} * n * n * static_cast<int64_t>(sizeof(float)));
}

}  // namespace weight_gradients_test
