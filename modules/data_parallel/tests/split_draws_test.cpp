// SPDX-License-Identifier: Apache-2.0
#include "split_draws.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <limits>
#include <string>
#include <tw/autograd/compute_type.hpp>
#include <tw/graph/capture.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/graph/random_stream.hpp>

namespace split_draws_test {

using tw::Draw;
using tw::problem_of;

std::vector<Draw> draws_of(const std::function<void()>& run) {
  const tw::SplitDraws watch;
  run();
  return watch.draws();
}

/// What is wrong with a dropout, whose tensor and generator's seed two ranks may have of their own.
std::string problem_with(const at::Tensor& first, const at::Tensor& second, uint64_t second_seed = 1) {
  const auto draws = [](const at::Tensor& of, uint64_t seed) {
    torch::manual_seed(seed);
    return draws_of([&] { (void)torch::dropout(of, 0.5, true); });
  };
  return problem_of({draws(first, 1), draws(second, second_seed)});
}

TEST(SplitDraws, FindsEqualGeneratorsForDifferentTensors) {
  for (const auto dtype : {torch::kDouble, torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const at::Tensor x = torch::randn({4, 6}).to(dtype);
    EXPECT_EQ(problem_with(x, x.clone()), "");
    EXPECT_EQ(problem_with(x, x.t().contiguous().t()), "") << "other strides";
    EXPECT_NE(problem_with(x, x.flip(0)), "");
    EXPECT_EQ(problem_with(x, x.flip(0), 2), "") << "other numbers";
  }
  const at::Tensor x = torch::randn({4, 6});
  EXPECT_EQ(problem_with(x, x * (1 + 1e-6)), "") << "rounding";
  EXPECT_NE(problem_with(x, x.narrow(1, 0, 5)).find("of shapes [4, 6] and [4, 5]"), std::string::npos) << problem_with(x, x.narrow(1, 0, 5));
  EXPECT_EQ(problem_with(x / 0, x / 0), "") << "not finite";
  EXPECT_EQ(problem_with(torch::zeros({0}), torch::zeros({0})), "");
  const auto attention = [] { return torch::softmax(torch::randn({512, 512}) * 3, -1).tril().to(torch::kBFloat16); };  // the largest is 1
  const at::Tensor probabilities = attention();
  EXPECT_EQ(problem_with(probabilities, probabilities.clone()), "");
  EXPECT_NE(problem_with(probabilities, attention()), "");
}

TEST(SplitDraws, AllowForRoundingUnderAutocast) {
  const at::Tensor x = torch::randn({4, 6});
  const at::Tensor rounded = x * (1 + 1e-3);
  EXPECT_NE(problem_with(x, rounded), "");
  for (const auto type : {tw::ComputeType::bfloat16, tw::ComputeType::float16}) {
    const tw::ComputeScope autocast(type, c10::kCPU);
    EXPECT_EQ(problem_with(x, rounded), "");
    EXPECT_NE(problem_with(x, x.flip(0)), "");
  }
}

TEST(SplitDraws, RecordsOperatorsThatDrawForTheValuesOfATensor) {
  const at::Tensor x = torch::ones({3});
  const auto count = [](const std::function<void()>& run) { return draws_of(run).size(); };
  EXPECT_EQ(count([&] { (void)torch::dropout(x, 0.5, true); }), 1U);
  EXPECT_EQ(count([&] { (void)torch::dropout(x, 0.5, false); }), 0U);
  EXPECT_EQ(count([&] { (void)torch::rand_like(x); }), 1U);
  EXPECT_EQ(count([&] { (void)torch::bernoulli(x); }), 1U);
  EXPECT_EQ(count([&] { (void)torch::rand({3}); }), 0U);
  EXPECT_EQ(count([&] { (void)torch::randint_like(torch::arange(3), 5); }), 0U);
  EXPECT_EQ(count([&] { (void)torch::empty_like(x).bernoulli_(0.5); }), 0U) << "memory that nobody has written";
  EXPECT_EQ(count([&] { (void)(x + 1); }), 0U);
  at::Tensor changed = x.clone();
  const std::vector<Draw> in_place = draws_of([&] { (void)torch::dropout_(changed, 0.5, true); });
  ASSERT_EQ(in_place.size(), 1U);
  EXPECT_EQ(in_place[0].values.back(), 1) << "before it is dropped";
}

TEST(SplitDraws, DrawTheSameNumbers) {
  const at::Tensor x = torch::randn({4, 6});
  torch::manual_seed(3);
  const at::Tensor expected = torch::dropout(x, 0.5, true);
  torch::manual_seed(3);
  at::Tensor ours;
  (void)draws_of([&] { ours = torch::dropout(x, 0.5, true); });
  EXPECT_TRUE(ours.equal(expected));
}

// A replay draws its own numbers; their seed stands for the generator.
TEST(SplitDraws, RecordsDrawsOfCapturedGraphs) {
  const at::Tensor x = torch::randn({4, 6});
  const tw::graph::Forward drop = [](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{torch::dropout(in[0], 0.5, true)}; };
  const auto draws = [&](const at::Tensor& of, uint64_t key, uint64_t stream) {
    const tw::graph::Graph graph = [&] {
      const tw::graph::RandomStream its(stream);
      return tw::graph::capture(drop, {}, {}, {x});
    }();
    const tw::graph::Interpreter replay(graph, {});
    return draws_of([&] { (void)replay.run({of}, {.rows = 4, .key = key}); });
  };
  ASSERT_EQ(draws(x, 1, 0).size(), 1U);
  EXPECT_EQ(problem_of({draws(x, 1, 0), draws(x, 1, 0)}), "");
  EXPECT_EQ(problem_of({draws(x, 1, 1), draws(x.flip(0), 1, 2)}), "");
  EXPECT_EQ(problem_of({draws(x, 1, 0), draws(x.flip(0), 2, 0)}), "");
  EXPECT_NE(problem_of({draws(x, 1, 0), draws(x.flip(0), 1, 0)}), "");
}

TEST(SplitDraws, ComparesGeneratorsThatArePassed) {
  const at::Tensor x = torch::full({6}, 0.5);
  const auto draws = [](const at::Tensor& of, uint64_t seed) {
    return draws_of([&] { (void)torch::bernoulli(of, at::make_generator<at::CPUGeneratorImpl>(seed)); });
  };
  EXPECT_EQ(problem_of({draws(x, 1), draws(x / 2, 2)}), "");
  EXPECT_NE(problem_of({draws(x, 1), draws(x / 2, 1)}), "");
  EXPECT_EQ(problem_of({draws(x, 1), {}}), "");
}

}  // namespace split_draws_test
