// SPDX-License-Identifier: Apache-2.0
// A module without memory has the graph of the same module on the CPU.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/base/log.hpp>
#include <tw/graph/capture_modes.hpp>
#include <tw/graph/forward.hpp>
#include <tw/graph/operator_listener.hpp>
#include <tw/models/gpt.hpp>
#include <tw/models/lenet.hpp>

#include "graph_of.hpp"
#include "message_of.hpp"

namespace tw::graph {
namespace capture_without_memory_test {

using at::Tensor;

/// While alive, floating-point tensors of at least this many elements are made without memory.
class WithoutMemory final : public OperatorListener {
 public:
  explicit WithoutMemory(int64_t least) : least_(least) {}

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack& stack) override {
    const auto& declared = op.schema().arguments();
    const auto arguments = torch::jit::last(stack, declared.size());
    const bool is_filled = !arguments.empty() && arguments[0].isTensor() && arguments[0].toTensor().is_meta();
    if (is_filled) return execute(op, stack);
    if (op.schema().name() != "aten::empty") return open(op, keys, stack);
    const int64_t numel = c10::multiply_integers(arguments[0].toIntVector());
    const auto dtype = arguments[1].isNone() ? at::kFloat : arguments[1].toScalarType();
    const size_t device = stack.size() - declared.size() + 3;
    EXPECT_EQ(declared[3].name(), "device");
    if (numel >= least_ && c10::isFloatingType(dtype)) stack[device] = c10::Device(at::kMeta);
    execute(op, stack);
  }

 private:
  int64_t least_;
};

/// Makes a module whose tensors of at least `least` elements have no memory.
template <class Make>
auto made_without_memory(const Make& make, int64_t least) {
  const WithoutMemory without(least);
  return make();
}

int64_t without_memory(const torch::nn::Module& module) {
  const auto all = module.parameters();
  return std::ranges::count_if(all, [](const Tensor& each) { return each.is_meta(); });
}

/// Parameters and example without memory; parameters only; only large parameters, as for a model larger than a rank.
template <class Make>
void expect_same_graphs(const std::string& name, const Make& make, const Tensor& example) {
  auto model = make();
  const ModeGraphs expected = capture_modes(*model, forward_of(*model), {example});
  for (const int64_t least : {0, 100}) {
    auto other = made_without_memory(make, least);
    const auto count = static_cast<int64_t>(other->parameters().size());
    EXPECT_GT(without_memory(*other), 0) << name;
    EXPECT_TRUE(least == 0 ? without_memory(*other) == count : without_memory(*other) < count) << name << ": " << without_memory(*other);
    for (const Tensor& batch : {example, example.to(at::kMeta)}) {
      SCOPED_TRACE(concat(name, ", from ", least, " elements, example on ", batch.device().str()));
      const ModeGraphs found = capture_modes(*other, forward_of(*other), {batch});
      EXPECT_EQ(to_text(found.training), to_text(expected.training));
      EXPECT_EQ(to_json(found.training), to_json(expected.training));
      EXPECT_EQ(to_json(found.evaluation), to_json(expected.evaluation));
      EXPECT_EQ(found.training.hash(), expected.training.hash());
    }
  }
}

TEST(CaptureWithoutMemory, gptHasTheGraphsOfTheCpu) {
  const auto gpt = [] {
    return models::Gpt(models::GptOptions{.vocabulary = 11, .context = 6, .width = 8, .heads = 2, .blocks = 2, .dropout = 0.3});
  };
  expect_same_graphs("gpt", gpt, torch::randint(11, {4, 6}, torch::kLong));
}

struct SequencesImpl : torch::nn::Module {
  SequencesImpl() : lstm(register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(3, 5).num_layers(2).batch_first(true)))) {}
  Tensor forward(const Tensor& x) { return std::get<0>(lstm(x)).flip(1); }
  torch::nn::LSTM lstm;
};
TORCH_MODULE(Sequences);

/// Running statistics, changes in place, and operators that the meta device lacks.
struct MixtureImpl : torch::nn::Module {
  MixtureImpl()
      : conv(register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(3, 4, 3).padding(1)))),
        norm(register_module("norm", torch::nn::BatchNorm1d(4))),
        groups(register_module("groups", torch::nn::GroupNorm(2, 4))),
        scale(register_buffer("scale", torch::ones({4, 1}))),
        wide(register_module("wide", torch::nn::Linear(8, 16))) {}
  Tensor forward(const Tensor& x) {
    Tensor y = norm(conv(x)).relu_();
    if (is_training()) scale.mul_(0.9).add_(y.detach().mean(std::vector<int64_t>{0, 2}).view({4, 1}), 0.1);
    y.add_(scale.expand_as(y));
    const Tensor rolled = torch::where(y > 0, y, y.roll(1, 2));
    return wide(torch::dropout(groups(rolled), 0.2, is_training()));
  }
  torch::nn::Conv1d conv;
  torch::nn::BatchNorm1d norm;
  torch::nn::GroupNorm groups;
  Tensor scale;
  torch::nn::Linear wide;
};
TORCH_MODULE(Mixture);

TEST(CaptureWithoutMemory, otherModulesHaveTheGraphsOfTheCpu) {
  expect_same_graphs("lenet", [] { return models::LeNet(); }, torch::randn({3, 1, 28, 28}));
  expect_same_graphs("lstm", [] { return Sequences(); }, torch::randn({3, 4, 3}));
  expect_same_graphs("mixture", [] { return Mixture(); }, torch::randn({3, 3, 8}));
}

/// A gigabyte of parameters, captured in a fraction of it.
TEST(CaptureWithoutMemory, takesNoMemoryForParameters) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer notes each byte in memory of its own";
#endif
  const auto peak = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;  // MiB
  };
  const auto make = [] {
    return torch::nn::Sequential(torch::nn::Embedding(1 << 17, 1 << 10), torch::nn::LayerNorm(torch::nn::LayerNormOptions({1 << 10})),
                                 torch::nn::Linear(1 << 10, 1 << 17));
  };
  auto model = made_without_memory(make, 0);
  const int64_t before = peak();
  const Graph graph = captured(*model, [&](const Tensors& x) { return Tensors{model->forward(x[0])}; }, {torch::zeros({2}, torch::kLong)});
  EXPECT_EQ(graph.nodes.size(), 4U);
  EXPECT_LT(peak() - before, 64) << "MiB";
}

struct Doubles : torch::autograd::Function<Doubles> {
  static Tensor forward(torch::autograd::AutogradContext* /*context*/, const Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/, torch::autograd::variable_list gradients) {
    return {gradients[0] * 2};
  }
};

TEST(CaptureWithoutMemory, saysWhatItCannotKnow) {
  const auto refusal = [](const Forward& forward) {
    torch::nn::Linear layer = made_without_memory([] { return torch::nn::Linear(3, 3); }, 0);
    return testing::message_of([&] { captured(*layer, [&](const Tensors& x) { return forward({layer(x[0])}); }, {torch::randn({4, 3})}); });
  };
  const auto expect_refused = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  const Tensor outside = torch::ones({3}, torch::device(at::kMeta));
  expect_refused(refusal([&](const Tensors& x) { return Tensors{x[0] + outside}; }), "without memory it has no values");
  expect_refused(refusal([](const Tensors& x) { return x[0].sum().item<double>() > 0 ? x : Tensors{x[0] + 1}; }),
                 "control flow must not depend on data");
  expect_refused(refusal([](const Tensors& x) { return torch::equal(x[0], x[0] + 1) ? x : Tensors{x[0] + 1}; }), "without memory there is none");
  expect_refused(refusal([](const Tensors& x) { return torch::equal(x[0], x[0]) ? Tensors{torch::layer_norm(Doubles::apply(x[0]), {3})} : x; }),
                 "a custom gradient function");
  // Rows and columns in one dimension: only values would tell them apart.
  expect_refused(refusal([](const Tensors& x) { return Tensors{torch::dropout(x[0].flatten(), 0.5, true).view({-1, 3})}; }), "without values");
}

TEST(CaptureWithoutMemory, logsThatTheGraphIsNotCompared) {
  std::string logged;
  set_log_function([&](LogLevel, std::string_view line) { logged += line; });
  torch::nn::Linear layer = made_without_memory([] { return torch::nn::Linear(3, 3); }, 0);
  captured(*layer, [&](const Tensors& x) { return Tensors{layer(x[0])}; }, {torch::randn({4, 3})});
  set_log_function({});
  EXPECT_NE(logged.find("is not compared"), std::string::npos) << logged;
}

}  // namespace capture_without_memory_test
}  // namespace tw::graph
