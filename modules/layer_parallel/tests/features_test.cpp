// SPDX-License-Identifier: Apache-2.0
// Features of layer-parallel networks beyond plain passes: states of several tensors, random layers, batch normalisation, accumulation, checkpoints,
// nested iteration, faults.
#include "features.hpp"
#include "dense.hpp"
#include "mpi_test.hpp"
#include "placed.hpp"

#include <cmath>
#include <map>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/check_layer.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/mpi/error.hpp>

namespace tw::layer_parallel {
namespace features_test {

using features::exact;
using features::WithDropout;
using testing::world;

/// Outputs and input gradients of a network, in float64, after `passes` passes with accumulated gradients.
struct Outcome {
  State outputs;
  State input_gradients;
};

template <class Net>
Outcome run(Net& net, const State& inputs, const State& extras = {}, int passes = 1) {
  Outcome outcome;
  State leaves;
  for (const torch::Tensor& t : inputs) leaves.push_back(t.clone().set_requires_grad(true));
  for (int pass = 0; pass < passes; ++pass) {
    outcome.outputs = net.forward(leaves, extras);
    torch::Tensor loss = torch::zeros({}, torch::kDouble);
    for (const torch::Tensor& t : outcome.outputs) loss = loss + t.sin().sum();
    loss.backward();
  }
  for (const torch::Tensor& leaf : leaves) outcome.input_gradients.push_back(leaf.grad());
  return outcome;
}

// Tolerances: float64, a few thousand operations; the order differs only where layers run as one operation.
void expect_equals_serial(const std::vector<Block>& given, const State& inputs, const State& extras = {}, int passes = 1) {
  const std::vector<Block> blocks = testing::placed(given);
  for (const auto* tensors : {&inputs, &extras}) {
    for (const torch::Tensor& tensor : *tensors) testing::place(tensor);
  }
  SerialNetwork serial(blocks, exact());
  LayerParallel net(world(), blocks, exact());
  serial.to(torch::kDouble);
  net.to(torch::kDouble);
  const Outcome expected = run(serial, inputs, extras, passes);
  const Outcome ours = run(net, inputs, extras, passes);
  for (size_t i = 0; i < ours.outputs.size(); ++i) {
    EXPECT_LE(relative_difference(ours.outputs[i], expected.outputs[i]), 1e-12) << "output " << i;
    if (world().rank() == 0) {
      EXPECT_LE(relative_difference(ours.input_gradients[i], expected.input_gradients[i]), 1e-12) << "input " << i;
    }
  }
  expect_gradients_equal(net, serial, 1e-11);
}

/// Two tensors, each of which drives the other.
struct HamiltonianImpl : torch::nn::Module {
  HamiltonianImpl() : force(register_module("force", torch::nn::Linear(4, 4))) {}
  State forward(const State& u) { return {torch::tanh(u.at(1)), -torch::tanh(force(u.at(0)))}; }
  torch::nn::Linear force;
};
TORCH_MODULE(Hamiltonian);

TEST(Features, StatesOfSeveralTensors) {
  torch::manual_seed(1);
  const State inputs{torch::randn({3, 4}, torch::kDouble), torch::randn({3, 4}, torch::kDouble)};
  for (const Integrator integrator : {Integrator::euler, Integrator::rk2, Integrator::rk4}) {
    expect_equals_serial({block([] { return Hamiltonian(); }, 10, {.integrator = integrator})}, inputs);
  }
}

struct MaskedImpl : torch::nn::Module {
  MaskedImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(const torch::Tensor& u, const State& extras) { return torch::tanh(linear(u)) * extras.at(0); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Masked);

TEST(Features, ExtrasReachEveryLayer) {
  torch::manual_seed(2);
  const State inputs{torch::randn({3, 4}, torch::kDouble)};
  expect_equals_serial({block([] { return Masked(); }, 9)}, inputs, {torch::tensor({1.0, 0.0, 2.0, 1.0}, torch::kDouble)});
}

/// A layer that makes its own step.
struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(const torch::Tensor& u, double dt) { return u + dt * torch::relu(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

TEST(Features, LayersThatMakeTheirOwnStep) {
  torch::manual_seed(3);
  expect_equals_serial({block([] { return Residual(); }, 11)}, {torch::randn({3, 4}, torch::kDouble)});
}

/// The same, with extras that all layers share.
struct MaskedResidualImpl : torch::nn::Module {
  MaskedResidualImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(const torch::Tensor& u, const State& extras, double dt) { return u + dt * torch::relu(linear(u)) * extras.at(0); }
  torch::nn::Linear linear;
};
TORCH_MODULE(MaskedResidual);

TEST(Features, LayersThatMakeTheirOwnStepWithExtras) {
  torch::manual_seed(3);
  expect_equals_serial({block([] { return MaskedResidual(); }, 11)}, {torch::randn({3, 4}, torch::kDouble)},
                       {torch::tensor({1.0, 0.0, 2.0, 1.0}, torch::kDouble)});
}

/// A layer that stores its index in a parameter that is not trained.
struct NumberedImpl : torch::nn::Module {
  explicit NumberedImpl(int64_t index)
      : linear(register_module("linear", torch::nn::Linear(4, 4))),
        number(register_parameter("number", torch::full({1}, static_cast<double>(index)), /*requires_grad=*/false)) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)) * torch::cos(number); }
  torch::nn::Linear linear;
  torch::Tensor number;
};
TORCH_MODULE(Numbered);

TEST(Features, LayersThatKnowTheirNumberRunTogether) {
  torch::manual_seed(8);
  const std::vector<Block> blocks{block([](int64_t index) { return Numbered(index); }, 12)};
  expect_equals_serial(blocks, {torch::randn({3, 4}, torch::kDouble)});
  LayerParallel net(world(), blocks, {.min_coarse = 1});
  net.forward(torch::ones({3, 4}));
  EXPECT_EQ(net.unbatchable("0"), "");
}

TEST(Features, GradientsOfSeveralPassesAddUp) {
  torch::manual_seed(4);
  expect_equals_serial({block([] { return torch::nn::Linear(4, 4); }, 1), block([] { return Dense(4); }, 8)}, {torch::randn({3, 4}, torch::kDouble)},
                       {}, 3);
}

/// The masks of a layer are the same in every sweep and on every rank, and different in the next pass.
TEST(Features, RandomLayersDrawTheSameInEverySweep) {
  torch::manual_seed(5);
  const State inputs{torch::randn({3, 4}, torch::kDouble)};
  const std::vector<Block> blocks = testing::placed({block([] { return WithDropout(); }, 8, {.random = true})});
  expect_equals_serial(blocks, inputs, {}, 2);
  LayerParallel net(world(), blocks, exact());
  net.to(torch::kDouble);
  const torch::Tensor first = net.forward(inputs, {})[0].detach().clone();
  EXPECT_FALSE(first.equal(net.forward(inputs, {})[0].detach()));
  net.eval();
  const torch::Tensor evaluated = net.forward(inputs, {})[0].detach().clone();
  EXPECT_TRUE(evaluated.equal(net.forward(inputs, {})[0].detach()));
}

struct NormalisedImpl : torch::nn::Module {
  NormalisedImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))), norm(register_module("norm", torch::nn::BatchNorm1d(4))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(norm(linear(u))); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Normalised);

TEST(Features, RunningStatisticsAreUpdatedOnceABatch) {
  torch::manual_seed(6);
  const State inputs{torch::randn({16, 4}, torch::kDouble)};
  const std::vector<Block> blocks = testing::placed({block([] { return Normalised(); }, 8)});
  expect_equals_serial(blocks, inputs);
  SerialNetwork serial(blocks, exact());
  serial.to(torch::kDouble);
  LayerParallel net(world(), blocks, exact());
  net.to(torch::kDouble);
  for (int batch = 0; batch < 2; ++batch) {
    run(serial, inputs);
    run(net, inputs);
  }
  for (const NamedShard& shard : net.shards()) {
    if (shard.kind != ShardKind::buffer) continue;
    for (int64_t i = 0; i < shard.tensor.size(0); ++i) {
      const auto buffers = serial.layers(0)[static_cast<size_t>(shard.offsets[0] + i)].module->named_buffers();
      const torch::Tensor theirs = buffers[shard.name.substr(2)];
      EXPECT_LE((shard.tensor[i] - theirs).abs().max().item<double>(), 1e-12) << shard.name;
    }
  }
}

TEST(Features, WithoutGradientsTheOutputIsTheSame) {
  const torch::Tensor x = torch::ones({2, 4});
  LayerParallel net(world(), {block([] { return Dense(4); }, 8)}, exact());
  const torch::Tensor y = net.forward(x);
  const torch::NoGradGuard no_gradients;
  const torch::Tensor without = net.forward(x);
  EXPECT_FALSE(without.requires_grad());
  EXPECT_TRUE(without.equal(y));
}

/// Detects float32 messages, states left over from an earlier call, and wrong handling of a non-contiguous cotangent.
TEST(Features, ASecondPassOverTheSameInputIsTheSame) {
  const torch::Tensor x = torch::randn({3, 4});
  for (const Guess guess : {Guess::zero, Guess::previous}) {
    LayerParallel net(world(), {block([] { return Dense(4); }, 32)}, {.coarsening = 4, .guess = guess});
    torch::Tensor y = net.forward(x);
    y.sum().backward();
    const double first = *net.report().blocks[0].forward.residuals.back();
    const torch::Tensor second = net.forward(x);
    if (guess == Guess::zero) {
      EXPECT_TRUE(second.equal(y));
    } else {
      EXPECT_LE(*net.report().blocks[0].forward.residuals.back(), 1e-2 * first) << "it goes on where the first pass has ended";
    }
  }
}

/// The same numbers with less memory: recomputed values equal the original ones.
TEST(Features, RecomputationChangesNothing) {
  torch::manual_seed(8);
  const torch::Tensor x = torch::randn({3, 4});
  for (const auto& of :
       {block([] { return Dense(4); }, 18), block([] { return WithDropout(); }, 18, {.random = true}), block([] { return Normalised(); }, 18)}) {
    std::vector<std::vector<torch::Tensor>> outcomes;
    for (const bool recompute : {false, true}) {
      LayerParallel net(world(), {of}, {.coarsening = 4, .backward = {.iterations = 2}, .recompute = recompute});
      torch::Tensor input = x.clone().set_requires_grad(true);
      const torch::Tensor y = net.forward(input);
      y.sin().sum().backward();
      std::vector<torch::Tensor>& outcome = outcomes.emplace_back(std::vector<torch::Tensor>{y.detach()});
      if (world().rank() == 0) outcome.push_back(input.grad());
      for (const torch::Tensor& p : net.parameters()) outcome.push_back(p.grad());
      for (const torch::Tensor& b : net.buffers()) outcome.push_back(b);
    }
    for (size_t i = 0; i < outcomes[0].size(); ++i) EXPECT_TRUE(outcomes[0][i].equal(outcomes[1][i])) << i;
  }
}

struct CountingImpl : torch::nn::Module {
  CountingImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(const torch::Tensor& u) {
    ++calls;
    return torch::tanh(linear(u));
  }
  torch::nn::Linear linear;
  static inline int calls = 0;
};
TORCH_MODULE(Counting);

TEST(Features, RecomputationMakesOneForwardPassMoreABackwardSweep) {
  int extra = 0;
  for (const bool recompute : {false, true}) {
    LayerParallel net(world(), {block([] { return Counting(); }, 16, {.batching = Batching::never})}, {.recompute = recompute});
    const torch::Tensor y = net.forward(torch::ones({2, 4}));
    CountingImpl::calls = 0;
    y.sum().backward();
    extra = CountingImpl::calls - extra;
  }
  torch::Tensor all = torch::tensor(extra, torch::kLong);
  allreduce(world(), all, ReduceOp::sum);
  EXPECT_EQ(all.item<int64_t>(), 16) << "the last relaxation is the only sweep over the finest level";
}

TEST(Features, ObserversSeeEveryPhase) {
  LayerParallel net(world(), {block([] { return Dense(4); }, 16)});
  std::map<std::string, int> seen;
  net.observe([&](const char* name, int /*level*/, auto begin, auto end) {
    EXPECT_LE(begin, end);
    ++seen[name];
  });
  net.forward(torch::ones({2, 4})).sum().backward();
  EXPECT_EQ(seen["solve"], 3) << "two iterations forward and one backward";
  EXPECT_EQ(seen["last relaxation"], 2);
}

struct ThrowsImpl : torch::nn::Module {
  explicit ThrowsImpl(bool throws) : throws_(throws), linear(register_module("linear", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(const torch::Tensor& u) {
    if (throws_) throw std::runtime_error("this layer fails");
    return linear(u);
  }
  bool throws_;
  torch::nn::Linear linear;
};
TORCH_MODULE(Throws);

TEST(Features, ALayerThatThrowsReleasesTheOtherRanks) {
  LayerParallel net(world(), {block([](int64_t index) { return Throws(index == 0); }, 16)}, exact());
  if (world().rank() == 0) {
    EXPECT_THROW(net.forward(torch::ones({2, 4})), std::runtime_error);
  } else {
    EXPECT_THROW(net.forward(torch::ones({2, 4})), RevokedError);
  }
}

TEST(Features, CheckLayerNamesWhatIsWrong) {
  const State example{torch::ones({2, 4})};
  EXPECT_EQ(check_layer(block([] { return Dense(4); }, 4), example), std::vector<std::string>{});
  EXPECT_EQ(check_layer(block([] { return WithDropout(); }, 4, {.random = true}), example), std::vector<std::string>{});
  const auto expect_problem = [&](const Block& of, const std::string& text) {
    const std::vector<std::string> problems = check_layer(of, example);
    ASSERT_FALSE(problems.empty()) << text;
    EXPECT_NE(problems[0].find(text), std::string::npos) << problems[0];
  };
  expect_problem(block([] { return WithDropout(); }, 4), "equal inputs gave different results");
  struct Shrinks : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& u, double) { return u.narrow(1, 0, 2); }
  };
  expect_problem(block([] { return std::make_shared<Shrinks>(); }, 4), "an ODE block must keep");
  struct IgnoresDt : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& u, double) { return u * 2; }
  };
  expect_problem(block([] { return std::make_shared<IgnoresDt>(); }, 4), "does not depend on dt");
  const Dense shared(4);
  expect_problem(block([shared] { return shared; }, 4), "the same layer twice");
  struct Lonely : torch::nn::Module {
    Lonely() { register_parameter("unused", torch::ones({1})); }
    torch::Tensor forward(const torch::Tensor& u) { return u.tanh(); }
  };
  expect_problem(block([] { return std::make_shared<Lonely>(); }, 4), "no gradient reaches parameter 'unused'");
}

/// <J v, w> = <v, J^T w> of the whole network, solved exactly: the adjoint against a central difference of the forward pass.
TEST(Features, TheAdjointPassesTheDotProductTest) {
  LayerParallel net(world(), {block([] { return Dense(4); }, 12)}, exact());
  net.to(torch::kDouble);
  torch::manual_seed(7);
  const torch::Tensor x = torch::randn({3, 4}, torch::kDouble);
  const torch::Tensor v = torch::randn({3, 4}, torch::kDouble);
  const torch::Tensor w = torch::randn({3, 4}, torch::kDouble);
  constexpr double eps = 1e-5;  // central difference: error eps^2 times third derivatives, plus 1e-16 / eps of rounding
  const torch::Tensor difference = (net.forward(x + eps * v) - net.forward(x - eps * v)).detach() / (2 * eps);
  torch::Tensor input = x.clone().set_requires_grad(true);
  net.forward(input).backward(w);
  if (world().rank() == 0) {
    EXPECT_NEAR((difference * w).sum().item<double>(), (input.grad() * v).sum().item<double>(), 1e-8);
  }
}

}  // namespace features_test
}  // namespace tw::layer_parallel
