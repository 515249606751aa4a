// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/base/error.hpp>
#include <tw/graph/capture.hpp>
#include <tw/graph/cuts.hpp>
#include <tw/graph/interpreter.hpp>

namespace tw::graph {
namespace cuts_test {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Weights {
  Tensor w = torch::randn({6, 6}, torch::requires_grad());
  Tensor count = torch::zeros({});
};

Graph captured(const Weights& weights, const Forward& forward) {
  return capture(forward, {{"w", weights.w}}, {{"count", weights.count}}, {torch::randn({4, 6})});
}

std::vector<std::vector<std::string>> names_of(const Graph& graph, const std::vector<std::vector<int>>& units) {
  std::vector<std::vector<std::string>> names;
  for (const auto& unit : units) {
    names.emplace_back();
    for (const int node : unit) names.back().push_back(graph.nodes[static_cast<size_t>(node)].op);
  }
  return names;
}

// Runs every division of the units into contiguous stages, with an interpreter per stage, and compares with the whole.
void expect_all_cuts_agree(const Graph& graph, const Weights& weights) {
  const auto bind = [&](const std::string& name) { return name == "w" ? weights.w : weights.count.clone(); };
  const auto units = units_of(graph);
  const Tensor x = torch::randn({5, 6});
  const auto gradient_of = [&](const std::function<Tensors(const Tensors&)>& run) {
    weights.w.mutable_grad() = Tensor();
    Tensor input = x.clone().requires_grad_();
    const Tensors outputs = run({input});
    Tensor sum = torch::zeros({});
    for (const Tensor& output : outputs) sum = sum + output.sin().sum();
    sum.backward();
    return Tensors{outputs[0].detach(), input.grad(), weights.w.grad()};
  };
  const Interpreter whole(graph, bind);
  const Tensors expected = gradient_of([&](const Tensors& inputs) { return whole.run(inputs, {.rows = 5}); });
  for (uint32_t cuts = 0; cuts < 1U << (units.size() - 1); ++cuts) {
    std::vector<int> stage_of(units.size(), 0);
    for (size_t u = 1; u < units.size(); ++u) stage_of[u] = stage_of[u - 1] + static_cast<int>(cuts >> (u - 1) & 1U);
    const auto stages = stages_of(graph, units, stage_of);
    const Tensors found = gradient_of([&](Tensors values) {
      for (const Piece& stage : stages) values = Interpreter(graph, stage.nodes, stage.inputs, stage.outputs, bind).run(values, {.rows = 5});
      return values;
    });
    // Gradients of a value used by several stages are summed in a different order: some rounding errors of float32 numbers of size 10.
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-5, 1e-5)) << "cuts " << cuts << ", tensor " << i;
  }
}

/// A module's checks of its own buffers run on each rank's stages, too. Otherwise a pipeline would follow the captured path forever.
TEST(Cuts, keepGuardsOnBuffers) {
  Weights weights;
  const Graph graph = captured(weights, [&](const Tensors& x) {
    Tensor h = x[0].matmul(weights.w).tanh();
    TORCH_CHECK((weights.count < 100).item<bool>(), "begins the second phase");
    weights.count.add_(1);
    return Tensors{h.matmul(weights.w)};
  });
  const auto units = units_of(graph);
  ASSERT_GE(units.size(), 2U);
  std::vector<int> stage_of(units.size(), 1);
  stage_of[0] = 0;
  const Tensor count = torch::zeros({});
  const auto pass = [&] {
    Tensors values{torch::randn({5, 6})};
    for (const Piece& stage : stages_of(graph, units, stage_of)) {
      const Interpreter interpreter(graph, stage.nodes, stage.inputs, stage.outputs,
                                    [&](const std::string& name) { return name == "w" ? weights.w : count; });
      values = interpreter.run(values, {.rows = 5});
    }
  };
  pass();
  EXPECT_EQ(count.item<float>(), 1);
  count.fill_(100);
  EXPECT_THROW(pass(), Error);
}

TEST(Cuts, chainIsCutBetweenAllOperators) {
  const Weights weights;
  const Graph graph = captured(weights, [&](const Tensors& x) { return Tensors{x[0].matmul(weights.w.t()).tanh().matmul(weights.w.t()).relu()}; });
  EXPECT_EQ(names_of(graph, units_of(graph)),
            (std::vector<std::vector<std::string>>{{"aten::matmul"}, {"aten::tanh"}, {"aten::matmul"}, {"aten::relu"}}));
  expect_all_cuts_agree(graph, weights);
}

TEST(Cuts, skipsAreHandedOnAndSharedWeightsAreInEachStage) {
  const Weights weights;
  const Graph graph = captured(weights, [&](const Tensors& x) {
    const Tensor a = x[0].matmul(weights.w);
    const Tensor b = a.tanh();
    return Tensors{b.matmul(weights.w) + a + x[0], b};
  });
  const auto units = units_of(graph);
  ASSERT_EQ(units.size(), 5U);
  const auto stages = stages_of(graph, units, {0, 1, 1, 2, 2});
  EXPECT_EQ(stages[0].outputs.size(), 2U);  // a and the input
  EXPECT_EQ(stages[1].outputs.size(), 4U);  // also b and the product
  EXPECT_EQ(stages[0].tensors, stages[1].tensors);
  EXPECT_TRUE(stages[2].tensors.empty());
  expect_all_cuts_agree(graph, weights);
}

TEST(Cuts, keepTogetherWhatIsChangedInPlaceAndWhatIsNoRows) {
  const Weights weights;
  const Graph graph = captured(weights, [&](const Tensors& x) {
    const Tensor a = x[0].matmul(weights.w);
    const Tensor view = a.t();
    a.mul_(2);
    weights.count.add_(1);
    return Tensors{a.tanh() + x[0].mean() + view.t().exp()};
  });
  const auto names = names_of(graph, units_of(graph));
  for (const auto& unit : names) EXPECT_NE(unit.front(), "aten::mul_");
  EXPECT_EQ(names.front().front(), "aten::matmul");
  expect_all_cuts_agree(graph, weights);
}

TEST(Cuts, keepWhatIsDoneToConstantsAndBuffers) {
  const Weights weights;
  const Graph graph = captured(weights, [&](const Tensors& x) {
    const Tensor mask = torch::zeros({6});
    mask.slice(0, 0, 3).fill_(2);
    weights.count.add_(1);
    const Tensor a = x[0].matmul(weights.w.t()).tanh() * mask;
    const Tensor b = a.matmul(weights.w).tanh() * mask + torch::tensor(0.5);
    weights.count.mul_(3);
    return Tensors{b};
  });
  size_t changes = 0;
  for (const auto& unit : names_of(graph, units_of(graph))) {
    changes += static_cast<size_t>(std::ranges::count(unit, "aten::add_") + std::ranges::count(unit, "aten::mul_"));
  }
  EXPECT_EQ(changes, 2U) << "those of the buffer, each once";
  expect_all_cuts_agree(graph, weights);
}

TEST(Cuts, keepUsersOfRunningMeansTogether) {
  torch::nn::BatchNorm1d norm(6);
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> buffers;
  for (const auto& each : norm->named_parameters()) parameters.push_back({each.key(), each.value()});
  for (const auto& each : norm->named_buffers()) buffers.push_back({each.key(), each.value()});
  const Graph graph =
      capture([&](const Tensors& x) { return Tensors{norm(norm(x[0].sin()).cos()).exp()}; }, parameters, buffers, {torch::randn({4, 6})});
  EXPECT_EQ(units_of(graph).size(), 3U) << "sine; both norms and what lies between; exponential";
}

TEST(Cuts, ofStagesGoOnWhereSegmentsAreCut) {
  const Weights weights;
  const Graph graph = captured(weights, [&](const Tensors& x) {
    const Tensor a = x[0].matmul(weights.w);
    const Tensor b = a.tanh() * x[0];
    return Tensors{b.matmul(weights.w.t()).sin() + a, b};
  });
  const auto units = units_of(graph);
  const size_t count = units.size();
  ASSERT_EQ(count, 6U);
  for (uint32_t stage_cuts = 0; stage_cuts < 1U << (count - 1); ++stage_cuts) {
    for (uint32_t cuts = 0; cuts < 1U << (count - 1); ++cuts) {
      std::vector<int> stage_of(count, 0);
      std::vector<int> segment_of(count, 0);
      for (size_t u = 1; u < count; ++u) {
        stage_of[u] = stage_of[u - 1] + static_cast<int>(stage_cuts >> (u - 1) & 1U);
        segment_of[u] = segment_of[u - 1] + static_cast<int>((stage_cuts | cuts) >> (u - 1) & 1U);
      }
      const auto stages = stages_of(graph, units, stage_of);
      const auto segments = stages_of(graph, units, segment_of);
      for (size_t u = 0; u < count; ++u) {
        const Piece& stage = stages[static_cast<size_t>(stage_of[u])];
        const Piece& segment = segments[static_cast<size_t>(segment_of[u])];
        const bool begins = u == 0 || stage_of[u - 1] != stage_of[u];
        const bool ends = u + 1 == count || stage_of[u + 1] != stage_of[u];
        EXPECT_TRUE(!begins || segment.inputs == stage.inputs) << stage_cuts << ' ' << cuts;
        EXPECT_TRUE(!ends || segment.outputs == stage.outputs) << stage_cuts << ' ' << cuts;
      }
    }
  }
}

TEST(Cuts, refuseWhatRunsBackwards) {
  const Weights weights;
  const Graph graph = captured(weights, [&](const Tensors& x) { return Tensors{x[0].sin().cos()}; });
  EXPECT_THROW(stages_of(graph, units_of(graph), {1, 0}), ContractError);
}

}  // namespace cuts_test
}  // namespace tw::graph
