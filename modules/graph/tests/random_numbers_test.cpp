// SPDX-License-Identifier: Apache-2.0
// Random numbers of a graph: a row's do not depend on how the batch is divided, and their distribution is LibTorch's.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <tw/graph/forward.hpp>

#include "graph_of.hpp"

namespace tw::graph {
namespace random_numbers_test {

using at::Tensor;
using Function = std::function<Tensor(const Tensor&)>;

constexpr int64_t rows = 12;

Graph graph_of(const Function& function, const Tensor& x) {
  return captured(*torch::nn::Identity(), [&](const Tensors& in) { return Tensors{function(in[0])}; }, {x});
}

// Rows 5 to 7 alone get the same numbers as within the whole batch; another pass draws different ones.
void expect_rows_keep_their_numbers(const Function& function, const Tensor& x) {
  const Graph graph = graph_of(function, x.narrow(0, 0, 3));
  const Interpreter interpreter = interpreter_of(graph, *torch::nn::Identity());
  const Tensor whole = interpreter.run({x}, {.rows = rows, .key = 7})[0];
  EXPECT_TRUE(interpreter.run({x.narrow(0, 5, 3)}, {.rows = 3, .key = 7, .first = 5})[0].equal(whole.narrow(0, 5, 3))) << to_text(graph);
  EXPECT_FALSE(interpreter.run({x}, {.rows = rows, .key = 8})[0].equal(whole));
  EXPECT_FALSE(whole.select(0, 0).equal(whole.select(0, 1))) << "rows have numbers of their own";
}

TEST(Random, belongToRows) {
  const Tensor x = torch::rand({rows, 4, 6}) + 1;
  const std::vector<Function> functions{
      [](const Tensor& in) { return torch::dropout(in, 0.5, true); },
      [](const Tensor& in) {
        Tensor own = in * 2;
        return torch::dropout_(own, 0.5, true);
      },
      [](const Tensor& in) { return torch::feature_dropout(in, 0.5, true); },
      [](const Tensor& in) { return torch::alpha_dropout(in, 0.5, true); },
      [](const Tensor& in) { return torch::feature_alpha_dropout(in, 0.5, true); },
      [](const Tensor& in) { return torch::rrelu(-in, 0.1, 0.9, true); },
      [](const Tensor& in) { return in + torch::rand_like(in); },
      [](const Tensor& in) { return in + torch::randn_like(in); },
      [](const Tensor& in) { return in + torch::rand({in.size(0), 1, 6}); },
      [](const Tensor& in) { return in + torch::randn({in.size(0), 4, 1}); },
      [](const Tensor& in) { return in * torch::bernoulli(in - 1); },
      [](const Tensor& in) { return in * torch::bernoulli(in, 0.4); },
      [](const Tensor& in) { return in + torch::empty_like(in).uniform_(2, 3); },
      [](const Tensor& in) { return in + torch::empty_like(in).normal_(1, 2); },
      [](const Tensor& in) { return in + torch::empty_like(in).exponential_(2); },
      [](const Tensor& in) { return in * torch::zeros_like(in).bernoulli_(0.5); },
      [](const Tensor& in) { return torch::scaled_dot_product_attention(in, in, in, {}, 0.5); },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    expect_rows_keep_their_numbers(functions[i], x);
  }
}

// Rows are not the first dimension, or share one with heads or positions, as the outer or the inner index.
TEST(Random, belongToRowsWhereverTheyLie) {
  const Tensor x = torch::randn({rows, 4, 6});
  const std::vector<Function> functions{
      [](const Tensor& in) { return torch::dropout(in.transpose(0, 1), 0.5, true).transpose(0, 1); },
      [](const Tensor& in) { return torch::dropout(in.reshape({-1, 6}), 0.5, true).view({-1, 4, 6}); },
      [](const Tensor& in) { return torch::dropout(in.transpose(0, 1).reshape({-1, 6}), 0.5, true).view({4, -1, 6}).transpose(0, 1); },
      [](const Tensor& in) { return torch::dropout(in.permute({1, 2, 0}).reshape({4, -1}), 0.5, true).view({4, 6, -1}).permute({2, 0, 1}); },
      [](const Tensor& in) { return torch::dropout(torch::dropout(in, 0.3, true).flatten(), 0.5, true).view({-1, 4, 6}); },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SCOPED_TRACE(i);
    expect_rows_keep_their_numbers(functions[i], x);
  }
}

TEST(Random, recurrentLayersDropBetweenLayers) {
  torch::manual_seed(3);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(6, 5).num_layers(2).dropout(0.5));  // [time, rows, features]
  const auto forward = [&](const Tensors& in) { return Tensors{std::get<0>(lstm(in[0].transpose(0, 1))).transpose(0, 1)}; };
  const Tensor x = torch::randn({rows, 4, 6});
  const Graph graph = captured(*lstm, forward, {x.narrow(0, 0, 3)});
  const Interpreter interpreter = interpreter_of(graph, *lstm);
  const Tensor whole = interpreter.run({x}, {.rows = rows, .key = 7})[0];
  const Tensor part = interpreter.run({x.narrow(0, 5, 3)}, {.rows = 3, .key = 7, .first = 5})[0];
  EXPECT_TRUE(part.allclose(whole.narrow(0, 5, 3), 1e-5, 1e-6));  // float32 matrix products of a different size add up in a different order
  EXPECT_FALSE(whole.allclose(forward({x})[0], 1e-3, 1e-3)) << "it drops";
}

// Means and variances of 40,000 draws, within five standard deviations of the estimate.
TEST(Random, areDistributedAsTheyShould) {
  struct Case {
    Function draw;
    double mean, variance;
  };
  const double p = 0.25;
  const std::vector<Case> cases{
      {[&](const Tensor& in) { return torch::dropout(in, p, true); }, 1, p / (1 - p)},
      {[](const Tensor& in) { return in * torch::rand_like(in); }, 0.5, 1.0 / 12},
      {[](const Tensor& in) { return in * torch::randn_like(in); }, 0, 1},
      {[](const Tensor& in) { return in * torch::bernoulli(in * 0.3); }, 0.3, 0.21},
      {[](const Tensor& in) { return in * torch::empty_like(in).uniform_(-1, 3); }, 1, 16.0 / 12},
      {[](const Tensor& in) { return in * torch::empty_like(in).normal_(2, 3); }, 2, 9},
      {[](const Tensor& in) { return in * torch::empty_like(in).exponential_(2); }, 0.5, 0.25},
      {[](const Tensor& in) { return torch::rrelu(-in, 0.2, 0.6, true); }, -0.4, 0.16 / 12},
  };
  const Tensor x = torch::ones({200, 200}, torch::kDouble);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Graph graph = graph_of(cases[i].draw, x.narrow(0, 0, 2));
    const Tensor drawn = interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = 200, .key = 3})[0];
    const double count = 40000;
    EXPECT_NEAR(drawn.mean().item<double>(), cases[i].mean, 5 * std::sqrt(cases[i].variance / count)) << i;
    // The variance of a variance is at most (kurtosis - 1) / count of its square; the largest kurtosis here is the exponential's, 9.
    EXPECT_NEAR(drawn.var().item<double>(), cases[i].variance, 5 * std::sqrt(8 / count) * cases[i].variance) << i;
  }
}

// Rounding to nearest would return 1 for a thousand in a million numbers of half precision, and for some in a hundred million of float32.
TEST(Random, uniformNumbersStayBelowTheirUpperLimit) {
  const Tensor x = torch::zeros({1000, 1000});
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const std::vector<Function> functions{[type](const Tensor& in) { return torch::empty_like(in, type).uniform_(); },
                                          [type](const Tensor& in) { return torch::rand_like(in, type); },
                                          [type](const Tensor& in) { return torch::empty_like(in, type).uniform_(1, 2) - 1; }};
    for (size_t i = 0; i < functions.size(); ++i) {
      const Graph graph = graph_of([&](const Tensor& in) { return functions[i](in) + in.to(type); }, x.narrow(0, 0, 2));
      const Tensor drawn = interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = 1000, .key = 5})[0].to(at::kDouble);
      EXPECT_LT(drawn.max().item<double>(), 1) << type << ", " << i;
      EXPECT_GT(drawn.max().item<double>(), 0.98) << type << ", " << i;
      EXPECT_GE(drawn.min().item<double>(), 0) << type << ", " << i;
    }
  }
}

TEST(Random, dropoutScalesWithThePrecisionOfItsInput) {
  const double p = 0.3;
  const Tensor x = torch::ones({40, 5}, torch::kDouble);
  const Graph graph = graph_of([&](const Tensor& in) { return torch::dropout(in, p, true); }, x.narrow(0, 0, 2));
  EXPECT_EQ(interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = 40, .key = 5})[0].max().item<double>(), 1 / (1 - p));
}

}  // namespace random_numbers_test
}  // namespace tw::graph
