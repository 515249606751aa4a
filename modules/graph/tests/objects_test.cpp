// SPDX-License-Identifier: Apache-2.0
// Operators of other libraries, with arguments that are objects; dry runs; streams of random numbers.
#include "message_of.hpp"

#include <gtest/gtest.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <tw/base/error.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/dry_run.hpp>
#include <tw/graph/random_stream.hpp>

#include "graph_of.hpp"

namespace tw::graph {
namespace objects_test {

using at::Tensor;

/// Stands for the ranks with which an operator communicates: how often it did so.
struct Ranks : torch::CustomClassHolder {
  int calls = 0;
  std::string name() const { return "ranks"; }
};
using RanksPointer = c10::intrusive_ptr<Ranks>;

struct Nameless : torch::CustomClassHolder {};
using NamelessPointer = c10::intrusive_ptr<Nameless>;

Tensor doubled(const Tensor& x, const RanksPointer& ranks) {
  if (!DryRun::here()) ++ranks->calls;
  return x * (DryRun::here() ? 1 : 2);
}
Tensor same(const Tensor& x, const NamelessPointer& /*object*/) { return x * 1; }

Tensor call_doubled(const Tensor& x, const RanksPointer& ranks) {
  static torch::Library library = [] {
    torch::class_<Ranks>("graph_test", "Ranks").def("name", &Ranks::name);
    torch::class_<Nameless>("graph_test", "Nameless");
    torch::Library made(torch::Library::DEF, "graph_test", std::nullopt, __FILE__, __LINE__);
    made.def("doubled(Tensor x, __torch__.torch.classes.graph_test.Ranks ranks) -> Tensor", &doubled);
    made.def("same(Tensor x, __torch__.torch.classes.graph_test.Nameless object) -> Tensor", &same);
    return made;
  }();
  return c10::Dispatcher::singleton().findSchemaOrThrow("graph_test::doubled", "").typed<decltype(doubled)>().call(x, ranks);
}
Tensor call_same(const Tensor& x) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("graph_test::same", "").typed<decltype(same)>();
  return op.call(x, c10::make_intrusive<Nameless>());
}

Graph graph_of(const std::function<Tensor(const Tensor&)>& function, const Tensor& example = torch::randn({4, 3})) {
  return captured(*torch::nn::Identity(), [&](const Tensors& in) { return Tensors{function(in[0])}; }, {example});
}

Tensor run(const Graph& graph, const Tensor& x, uint64_t key = 0) {
  return interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = x.size(0), .key = key})[0];
}

TEST(Objects, AreArgumentsOfCapturedOperators) {
  const auto ranks = c10::make_intrusive<Ranks>();
  const Graph graph = graph_of([&](const Tensor& x) { return call_doubled(x, ranks); });
  EXPECT_EQ(ranks->calls, 0) << "a capture is local";
  EXPECT_EQ(to_text(graph),
            "input %0  # float32 [n, 3]\n"
            "%1 = graph_test::doubled(%0, ranks)  # float32 [n, 3]\n"
            "outputs %1\n");
  const Tensor x = torch::randn({2, 3});
  EXPECT_TRUE(run(graph, x).equal(2 * x));
  EXPECT_EQ(ranks->calls, 1);
}

TEST(Objects, AreNamesInJson) {
  const Graph graph = graph_of([](const Tensor& x) { return call_doubled(x, c10::make_intrusive<Ranks>()); });
  Graph read = graph_from_json(to_json(graph));
  EXPECT_EQ(read.nodes, graph.nodes);
  EXPECT_EQ(read.hash(), graph.hash());
  EXPECT_EQ(testing::message_of([&] { run(read, torch::ones({2, 3})); }),
            "operator 0, graph_test::doubled: it uses ranks, an object that JSON cannot hold: call replace_objects() first");
  const auto ranks = c10::make_intrusive<Ranks>();
  replace_objects(read, [&](const Object& object) { return object.name == "ranks" ? c10::IValue(ranks) : object.value; });
  EXPECT_TRUE(run(read, torch::ones({2, 3})).eq(2).all().item<bool>());
  EXPECT_EQ(ranks->calls, 1);
}

TEST(Objects, NeedNames) {
  (void)call_doubled(torch::ones({1}), c10::make_intrusive<Ranks>());  // registers
  const std::string message = testing::message_of([] { graph_of(&call_same); });
  EXPECT_EQ(message, "operator 0, graph_test::same: one of its arguments is of class Nameless, which has no method name()");
}

// Random numbers depend on the operators that draw, not on others between them.
TEST(RandomNumbers, StayTheSameWithMoreOperators) {
  const Tensor x = torch::ones({4, 50});
  const Graph few = graph_of([](const Tensor& in) { return torch::dropout(torch::dropout(in, 0.5, true), 0.5, true); }, x);
  const Graph many = graph_of([](const Tensor& in) { return torch::dropout(torch::dropout(in * 1, 0.5, true) * 1, 0.5, true); }, x);
  EXPECT_TRUE(run(few, x, 7).equal(run(many, x, 7)));
}

TEST(RandomNumbers, DifferBetweenStreams) {
  const Tensor x = torch::ones({4, 50});
  const auto in_stream = [&](uint64_t number) {
    return graph_of(
        [&](const Tensor& in) {
          const RandomStream stream(number);
          return torch::dropout(in, 0.5, true);
        },
        x);
  };
  const Graph plain = graph_of([](const Tensor& in) { return torch::dropout(in, 0.5, true); }, x);
  EXPECT_TRUE(run(in_stream(0), x).equal(run(plain, x)));
  EXPECT_FALSE(run(in_stream(1), x).equal(run(plain, x)));
  EXPECT_FALSE(run(in_stream(1), x).equal(run(in_stream(2), x)));
  EXPECT_TRUE(run(graph_from_json(to_json(in_stream(1))), x).equal(run(in_stream(1), x)));
  EXPECT_NE(in_stream(1).hash(), in_stream(2).hash());
  EXPECT_EQ(RandomStream::here(), 0U);
}

}  // namespace objects_test
}  // namespace tw::graph
