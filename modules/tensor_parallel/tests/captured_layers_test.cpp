// SPDX-License-Identifier: Apache-2.0
// Modules with split layers as captured graphs.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/comm/collectives.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/interpreter.hpp>
#include <tw/tensor_parallel.hpp>

namespace captured_layers_test {

using namespace tw::tensor_parallel;
using tw::testing::world;
using Tensors = std::vector<at::Tensor>;

/// Words to classes, with all operations between ranks. Of 7 words and 5 hidden features, ranks hold different numbers.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(double p = 0)
      : table(register_module("table", VocabParallelEmbedding(world(), 7, 4, VocabParallelEmbeddingOptions{.padding_idx = 2}))),
        wide(register_module("wide", ColumnParallelLinear(world(), 4, 5))),
        drop(register_module("drop", SplitDropout(world(), p))),
        narrow(register_module("narrow", RowParallelLinear(world(), 5, 6))),
        apart(register_module("apart", RowParallelLinear(world(), 6, 4, RowParallelLinearOptions{.input_is_parallel = false}))),
        last(register_module("last", ColumnParallelLinear(world(), 4, 3, ColumnParallelLinearOptions{.gather_output = true}))) {
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& words) { return last(torch::tanh(apart(torch::tanh(narrow(drop(torch::tanh(wide(table(words))))))))); }

  VocabParallelEmbedding table;
  ColumnParallelLinear wide;
  SplitDropout drop;
  RowParallelLinear narrow;
  RowParallelLinear apart;
  ColumnParallelLinear last;
};
TORCH_MODULE(Net);

Net make(double p = 0) {
  torch::manual_seed(21);
  return Net(p);
}
at::Tensor words(int64_t rows) { return torch::arange(rows * 3).view({rows, 3}) % 7; }

tw::graph::ModeGraphs captured(Net& net) {
  return tw::graph::capture_modes(*net, [&](const Tensors& in) { return Tensors{net(in[0])}; }, {words(4)});
}

tw::graph::Interpreter interpreter_of(const tw::graph::Graph& graph, Net& net) {
  return {graph, [parameters = net->named_parameters()](const std::string& name) { return parameters[name]; }};
}

TEST(CapturedLayers, ReplayWhatTheModuleComputes) {
  Net net = make();
  const tw::graph::Graph graph = captured(net).training;
  const std::string text = to_text(graph);
  for (const std::string name : {"vocabulary_rows", "copy_to_ranks", "reduce_from_ranks", "scatter_to_ranks", "gather_from_ranks"}) {
    EXPECT_NE(text.find("torchweave::" + name), std::string::npos) << text;
  }
  EXPECT_NE(text.find(tw::concat("ranks[", world().size(), "]")), std::string::npos) << text;
  const auto replay = interpreter_of(graph, net);
  for (const int64_t rows : {1, 5}) {
    const at::Tensor targets = torch::linspace(-1, 1, rows * 9, torch::kDouble).view({rows, 3, 3});
    const auto gradients = [&](const at::Tensor& output) {
      net->zero_grad();
      torch::mse_loss(output, targets).backward();
      Tensors all{output.detach()};
      for (const at::Tensor& each : net->parameters()) all.push_back(each.grad().clone());
      return all;
    };
    const Tensors expected = gradients(net(words(rows)));
    const Tensors ours = gradients(replay.run({words(rows)}, {.rows = rows})[0]);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(ours[i].equal(expected[i])) << i;
  }
}

// So that ranks need not make the same runs, such as for slices of other sizes.
TEST(CapturedLayers, AreCapturedWithoutMessages) {
  Net net = make();
  std::optional<tw::graph::Graph> graph;
  if (world().rank() == 0) graph = captured(net).training;
  world().barrier();
  if (world().rank() != 0) graph = captured(net).training;
  const at::Tensor output = interpreter_of(*graph, net).run({words(2)}, {.rows = 2})[0];
  EXPECT_TRUE(output.equal(net(words(2))));
}

/// By rank, what a captured dropout keeps of ones.
template <class Dropout>
at::Tensor kept_by_ranks(Dropout drop) {
  const at::Tensor ones = torch::ones({4, 16});
  const tw::graph::ModeGraphs graphs = tw::graph::capture_modes(*drop, [&](const Tensors& in) { return Tensors{drop(in[0])}; }, {ones});
  const tw::graph::Interpreter replay(graphs.training, [](const std::string&) { return at::Tensor(); });
  const at::Tensor all = torch::zeros({world().size(), 4, 16});
  tw::allgather(world(), replay.run({ones}, {.rows = 4, .key = 1})[0], all);
  return all;
}

TEST(CapturedLayers, DropOtherUnitsOnEachRank) {
  const at::Tensor split = kept_by_ranks(SplitDropout(world(), 0.5));
  const at::Tensor whole = kept_by_ranks(torch::nn::Dropout(0.5));
  for (int rank = 1; rank < world().size(); ++rank) {
    EXPECT_FALSE(split[rank].equal(split[0])) << "rank " << rank;
    EXPECT_TRUE(whole[rank].equal(whole[0])) << "rank " << rank;
  }
}

TEST(CapturedLayers, DropOtherUnitsInEachPass) {
  Net net = make(0.5);
  const tw::graph::ModeGraphs graphs = captured(net);
  const auto replay = interpreter_of(graphs.training, net);
  const auto pass = [&](uint64_t key) { return replay.run({words(4)}, {.rows = 4, .key = key})[0]; };
  EXPECT_TRUE(pass(1).equal(pass(1)));
  EXPECT_FALSE(pass(1).equal(pass(2)));
  EXPECT_EQ(std::ranges::count(graphs.evaluation.nodes, "aten::dropout", &tw::graph::Node::op), 0);
}

TEST(CapturedLayers, RefuseIndicesOutsideTheVocabulary) {
  Net net = make();
  const auto replay = interpreter_of(captured(net).training, net);
  EXPECT_ANY_THROW(replay.run({torch::full({2, 3}, 7)}, {.rows = 2}));
  world().barrier();
}

}  // namespace captured_layers_test
