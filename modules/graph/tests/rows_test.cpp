// SPDX-License-Identifier: Apache-2.0
// A graph works for any number of rows, or reports for which it does not.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <tw/base/error.hpp>
#include <tw/graph/cuts.hpp>

#include "graph_of.hpp"
#include "message_of.hpp"

namespace tw::graph {
namespace rows_test {

using at::Tensor;
using Function = std::function<Tensor(const Tensor&)>;

Graph graph_of(const Function& function, int64_t rows = 4) {
  return captured(*torch::nn::Identity(), [&](const Tensors& x) { return Tensors{function(x[0])}; }, {torch::randn({rows, 3})});
}

std::string refusal(const Function& function, int64_t rows = 4) {
  return testing::message_of<Error>([&] { graph_of(function, rows); });
}

TEST(Rows, sizesThatAreNotLinearAreRefusedWithTheOperator) {
  const Function square = [](const Tensor& x) { return x * torch::ones({x.size(0) * x.size(0)}).sum(); };
  const Function product = [](const Tensor& x) { return x * torch::arange(x.size(0) * (x.size(0) + 1)).sum(); };
  const Function half = [](const Tensor& x) { return x + x.narrow(0, 0, std::max<int64_t>(1, x.size(0) / 2)).sum(0); };
  for (const int64_t rows : {1, 2, 4}) {
    EXPECT_NE(refusal(square, rows).find("operator 0, aten::ones, argument 0: a size is "), std::string::npos) << refusal(square, rows);
    EXPECT_NE(refusal(square, rows).find("it is not linear in the rows"), std::string::npos) << refusal(square, rows);
    EXPECT_NE(refusal(product, rows).find("aten::arange"), std::string::npos) << refusal(product, rows);
    EXPECT_NE(refusal(half, rows).find("aten::narrow"), std::string::npos) << refusal(half, rows);
  }
}

TEST(Rows, whereOneRowIsACaseOfItsOwnAPassNeedsTwo) {
  const Function alone = [](const Tensor& x) { return x.size(0) == 1 ? x.sin() : x.cos(); };
  const Graph graph = graph_from_json(to_json(graph_of(alone)));
  EXPECT_EQ(graph.min_rows, 2);
  const Interpreter interpreter = interpreter_of(graph, *torch::nn::Identity());
  const Tensor x = torch::randn({2, 3});
  EXPECT_TRUE(interpreter.run({x}, {.rows = 2})[0].equal(x.cos()));
  const std::string message = testing::message_of<Error>([&] { interpreter.run({x.narrow(0, 0, 1)}, {.rows = 1}); });
  EXPECT_NE(message.find("a pass of 1 rows, but the module needs at least 2"), std::string::npos) << message;
  EXPECT_EQ(graph_of([](const Tensor& in) { return in.sin(); }).min_rows, 1);
  // LibTorch does not call contiguous() for a single row, which is contiguous already. The following operators accept either.
  const Function turned = [](const Tensor& in) {
    const Tensor by_column = in.transpose(0, 1);
    const Tensor whole = by_column.contiguous();
    return (whole.sin() + by_column.cos()).transpose(0, 1) + whole.add_(1).t() + by_column.sum();
  };
  EXPECT_EQ(graph_of(turned).min_rows, 1);
  EXPECT_EQ(to_text(graph_of(turned, 1)), to_text(graph_of(turned)));
}

// A transposed row is contiguous already: for one row, writes go into `h`.
TEST(Rows, whatSharesMemoryForOneRowIsNotParted) {
  const Graph graph = graph_of([](const Tensor& x) {
    const Tensor h = x.tanh();
    const Tensor turned = h.transpose(0, 1).contiguous();
    turned.add_(1);
    return h.sin() + turned.transpose(0, 1);
  });
  const auto has = [&](const std::vector<int>& unit, const std::string& op) {
    return std::ranges::any_of(unit, [&](int node) { return graph.nodes[static_cast<size_t>(node)].op == op; });
  };
  EXPECT_EQ(graph.min_rows, 1);
  const auto units = units_of(graph);
  const auto first = std::ranges::find_if(units, [&](const auto& unit) { return has(unit, "aten::tanh"); });
  ASSERT_NE(first, units.end());
  EXPECT_TRUE(has(*first, "aten::add_")) << to_text(graph);
}

// Values cached in members are made once, or for each number of rows.
TEST(Rows, cachesInMembersAreConstantsOrMadeEachTime) {
  Tensor positions;
  const Function once = [&](const Tensor& x) {
    if (!positions.defined()) positions = torch::arange(3).sin();
    return x * positions;
  };
  Tensor zeros;
  const Function by_rows = [&](const Tensor& x) {
    if (!zeros.defined() || zeros.size(0) != x.size(0)) zeros = torch::zeros({x.size(0), 1}) + 1;
    return x * zeros;
  };
  for (const Function& function : {once, by_rows}) {
    const Graph graph = graph_of(function);
    const Tensor x = torch::randn({5, 3});
    EXPECT_TRUE(interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = 5})[0].equal(function(x))) << to_text(graph);
  }
  const Tensor weight = torch::randn({3}, torch::requires_grad());
  Tensor kept;
  const std::string message = testing::message_of<Error>([&] {
    capture(
        [&](const Tensors& x) {
          if (!kept.defined()) kept = weight * 2;
          return Tensors{x[0] * kept};
        },
        {{"weight", weight}}, {}, {torch::randn({4, 3})});
  });
  EXPECT_NE(message.find("a tensor of shape [3] requires a gradient, but is not a parameter"), std::string::npos) << message;
}

TEST(Rows, aRowThatLooksLikeAnotherMattersOnlyWhereNumbersAreDrawn) {
  const auto dropped = [](double p) {
    return [p](const Tensor& x) { return torch::dropout(x.unsqueeze(1).expand({-1, 2, -1}).reshape({-1, 3}), p, true).view({-1, 2, 3}); };
  };
  EXPECT_NO_THROW(graph_of(dropped(0), 1));
  EXPECT_NE(refusal(dropped(0.5), 1).find("cannot be distinguished"), std::string::npos);
}

}  // namespace rows_test
}  // namespace tw::graph
