// SPDX-License-Identifier: Apache-2.0
// The readable text of graphs.
#include "message_of.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/base/error.hpp>
#include <tw/graph/capture.hpp>

namespace tw::graph {
namespace text_test {

using at::Tensor;
using Tensors = std::vector<Tensor>;

TEST(Text, hasWhatGoesInTheOperatorsAndTheOutputs) {
  const Tensor weight = torch::randn({3, 5}, torch::requires_grad());
  const Tensor shift = torch::ones({5}, torch::kDouble);
  const Forward forward = [&](const Tensors& x) {
    const Tensors halves = x[0].matmul(weight).split(2, 1);
    return Tensors{(halves[0] + shift.narrow(0, 0, 2)).reshape({x[0].size(0), 2, 1}), halves[2]};
  };
  const Graph graph = capture(forward, {{"net.weight", weight}}, {{"shift", shift}}, {torch::randn({4, 3})});
  EXPECT_EQ(to_text(graph),
            "input %0  # float32 [n, 3]\n"
            "parameter net.weight  # float32 [3, 5]\n"
            "buffer shift  # float64 [5]\n"
            "%3 = aten::matmul(%0, net.weight)  # float32 [n, 5]\n"
            "%4, %5, %6 = aten::split.Tensor(%3, 2, 1)  # float32 [n, 2], float32 [n, 2], float32 [n, 1]\n"
            "%7 = aten::narrow(shift, 0, 0, 2)  # float64 [2]\n"
            "%8 = aten::add.Tensor(%4, %7, 1)  # float64 [n, 2]\n"
            "%9 = aten::reshape(%8, [n, 2, 1])  # float64 [n, 2, 1]\n"
            "outputs %9 %6\n");
}

TEST(Text, namesTheOperatorOfAValueThatIsNot) {
  Graph graph;
  graph.values.resize(2);
  graph.nodes = {{.op = "aten::relu", .overload = "", .arguments = {Ref{0}}, .outputs = {1}},
                 {.op = "aten::tanh", .overload = "", .arguments = {Ref{7}}}};
  const auto message = [&] { return testing::message_of([&] { to_text(graph); }); };
  EXPECT_EQ(message(), "operator 1, aten::tanh: it takes value 7, but the graph has 2");
  graph.nodes[1].arguments = {};
  graph.nodes[1].outputs = {2};
  EXPECT_EQ(message(), "operator 1, aten::tanh: it returns value 2, but the graph has 2");
  graph.nodes.pop_back();
  graph.outputs = {-2};
  EXPECT_EQ(message(), "the graph returns value -2, but the graph has 2");
}

}  // namespace text_test
}  // namespace tw::graph
