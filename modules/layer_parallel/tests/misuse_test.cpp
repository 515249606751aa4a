// SPDX-License-Identifier: Apache-2.0
// Misuse that layer-parallel networks refuse, on every rank and without a hang, and faults that they survive.
#include "dense.hpp"
#include "mpi_test.hpp"
#include "refused.hpp"

#include <stdexcept>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/mpi/error.hpp>

namespace tw::layer_parallel {
namespace misuse_test {

using testing::world;

std::vector<Block> dense_blocks(int64_t layers = 16, Batching batching = Batching::automatic) {
  return {block([] { return Dense(4); }, layers, {.batching = batching})};
}

TEST(Misuse, GradientsThatAreNotThere) {
  const torch::Tensor x = torch::ones({2, 4});
  {
    LayerParallel net(world(), dense_blocks());
    expect_refused<ContractError>([&] { net.forward(State{x}, {torch::ones({4}).set_requires_grad(true)}); }, "no gradient reaches extras");
  }
  LayerParallel net(world(), dense_blocks());
  const torch::Tensor y = net.forward(x.clone().set_requires_grad(true));
  world().barrier();  // otherwise the refusal on one rank could release another from its forward pass
  expect_refused<ContractError>([&] { y.sum().backward({}, true, /*create_graph=*/true); }, "cannot be differentiated again");
}

TEST(Misuse, ParametersThatChangeBeforeTheBackwardPass) {
  for (const Batching batching : {Batching::never, Batching::automatic}) {
    LayerParallel net(world(), dense_blocks(16, batching));
    const torch::Tensor y = net.forward(torch::ones({2, 4}));
    world().barrier();
    {
      const torch::NoGradGuard no_gradients;
      for (torch::Tensor& p : net.parameters()) p.mul_(2);
    }
    expect_refused<ContractError>([&] { y.sum().backward(); }, "'linear.weight' was changed in place");
  }
}

/// The extras of all layers, and a layer's own tensor that shares memory with a parameter.
TEST(Misuse, OtherTensorsThatChangeBeforeTheBackwardPass) {
  for (const bool recompute : {false, true}) {
    std::vector<Dense> made;
    const auto make = [&] { return made.emplace_back(4); };
    LayerParallel net(world(), {block(make, 16)}, {.recompute = recompute});
    const torch::Tensor extra = torch::ones({4});
    torch::Tensor y = net.forward(State{torch::ones({2, 4})}, {extra})[0];
    world().barrier();
    extra.mul_(2);
    expect_refused<ContractError>([&] { y.sum().backward(); }, "'extras' was changed in place");
    y = net.forward(torch::ones({2, 4}));
    world().barrier();
    {
      const torch::NoGradGuard no_gradients;
      for (const Dense& layer : made) layer->linear->bias.add_(1);
    }
    expect_refused<ContractError>([&] { y.sum().backward(); }, "'linear.bias' was changed in place");
  }
}

TEST(Misuse, ASecondBackwardPassNeedsRetainGraph) {
  LayerParallel net(world(), dense_blocks());
  const torch::Tensor y = net.forward(torch::ones({2, 4})).sum();
  y.backward({}, /*retain_graph=*/true);
  std::vector<torch::Tensor> once;
  for (const torch::Tensor& p : net.parameters()) once.push_back(p.grad().clone());
  y.backward();
  for (size_t i = 0; i < once.size(); ++i) EXPECT_TRUE(net.parameters()[i].grad().equal(2 * once[i])) << i;
  const torch::Tensor z = net.forward(torch::ones({2, 4}));
  z.backward(torch::ones_like(z));
  world().barrier();
  expect_refused<ContractError>([&] { z.backward(torch::ones_like(z)); }, "retain_graph");
}

/// While output and loss are still alive, as outside a loop.
TEST(Misuse, ABackwardPassFreesWhatNobodyNeedsAgain) {
  LayerParallel net(world(), dense_blocks());
  const torch::Tensor extra = torch::ones({4});  // held by what a pass keeps
  const torch::Tensor y = net.forward(State{torch::ones({2, 4})}, {extra})[0].sum();
  y.backward({}, /*retain_graph=*/true);
  EXPECT_GT(extra.use_count(), 1);
  y.backward();
  EXPECT_EQ(extra.use_count(), 1);
}

TEST(Misuse, LayersThatShareTensors) {
  const Dense shared(4);
  expect_refused<ContractError>([&] { LayerParallel(world(), {block([shared] { return shared; }, 16)}); }, "shared with another layer or name");
  struct Tied : torch::nn::Module {
    Tied() {
      const torch::Tensor one = register_parameter("a", torch::ones({4}));
      register_parameter("b", one);
    }
    torch::Tensor forward(const torch::Tensor& u) { return u; }
  };
  expect_refused<ContractError>([&] { LayerParallel(world(), {block([] { return std::make_shared<Tied>(); }, 16)}); },
                                "shared with another layer or name");
  const std::vector<Dense> few{Dense(4), Dense(4), Dense(4)};  // used in turn, as in networks that repeat a few layers
  const auto repeated = [few](int64_t layer) { return few[static_cast<size_t>(layer % 3)]; };
  expect_refused<ContractError>([&] { LayerParallel(world(), {block(repeated, 16)}); }, "of layer 3 of block 0 is shared with another");
}

/// On separate ranks they would become two layers, or fifteen.
TEST(Misuse, BlocksThatShareTensors) {
  const torch::nn::Linear shared(4, 4);
  const auto make = [shared] { return shared; };
  expect_refused<ContractError>([&] { LayerParallel(world(), {block(make, 1), block([] { return Dense(4); }, 8), block(make, 1)}); },
                                "tensor 'weight' of block 2 is tensor 'weight' of block 0 too");
  expect_refused<ContractError>([&] { LayerParallel(world(), {block(make, 2)}); }, "tensor 'weight' of layer 1 of block 0 is shared with another");
}

TEST(Misuse, LayersThatDiffer) {
  const auto frozen = [](int64_t index) {
    Dense layer(4);
    if (index == 0) layer->linear->weight.set_requires_grad(false);
    return layer;
  };
  expect_refused<ContractError>([&] { LayerParallel(world(), {block(frozen, 16)}); }, "requires_grad");
}

TEST(Misuse, BlocksThatAreNone) {
  expect_refused<ContractError>([&] { LayerParallel(world(), dense_blocks(0)); }, "at least one layer");
  expect_refused<ContractError>([&] { LayerParallel(world(), dense_blocks(1)); }, "needs an ODE block");
  struct Step : torch::nn::Module {
    torch::Tensor forward(const torch::Tensor& u, double dt = 1) { return u * (1 + dt); }
  };
  std::vector<Block> blocks = dense_blocks();
  blocks.push_back(block([] { return std::make_shared<Step>(); }, 1));
  expect_refused<ContractError>([&] { LayerParallel(world(), blocks); }, "not a time step");
}

TEST(Misuse, AFactoryThatThrowsReleasesTheOtherRanks) {
  const auto failing = [](int64_t index) {
    if (index == 0) throw std::runtime_error("no such layer");
    return Dense(4);
  };
  expect_refused<std::runtime_error>([&] { LayerParallel(world(), {block(failing, 16)}); }, "no such layer");
}

/// A layer with invalid results.
struct Faulty : torch::nn::Module {
  explicit Faulty(bool gives_nothing) : gives_nothing_(gives_nothing) {}
  torch::Tensor forward(const torch::Tensor& u) { return gives_nothing_ ? torch::Tensor() : torch::zeros({u.size(1), 5}).matmul(u); }
  bool gives_nothing_;
};

/// A layer that reads the batch size from its weight.
struct RowsOfItsWeight : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& u) { return torch::ones({weight.size(0), u.size(1)}); }
  torch::Tensor weight = register_parameter("weight", torch::ones({3, 4}));
};

TEST(Misuse, LayersThatGiveNothingOrFailAreNamed) {
  const torch::Tensor x = torch::ones({2, 4});
  for (const Batching batching : {Batching::never, Batching::automatic}) {
    const std::vector<Block> nothing{block([] { return std::make_shared<Faulty>(true); }, 16, {.batching = batching})};
    expect_refused<ContractError>([&] { LayerParallel(world(), nothing).forward(x); }, "layer 0 of block 0, a ");
    const std::vector<Block> fails{block([] { return std::make_shared<Faulty>(false); }, 16, {.batching = batching})};
    expect_refused<c10::Error>([&] { LayerParallel(world(), fails).forward(x); }, "thrown in layer 0 of block 0, a ");
    const std::vector<Block> rows{block([] { return std::make_shared<RowsOfItsWeight>(); }, 16, {.batching = batching})};
    for (const torch::Tensor& batch : {x, x[0].unsqueeze(0)}) {
      expect_refused<ContractError>([&] { LayerParallel(world(), rows).forward(batch); }, "layer 0 of block 0, a ");
    }
  }
  std::vector<Block> opening = dense_blocks();
  opening.insert(opening.begin(), block([] { return std::make_shared<Faulty>(true); }, 1));
  expect_refused<ContractError>([&] { LayerParallel(world(), opening).forward(x); }, "block 0, a ");
  expect_refused<ContractError>([&] { LayerParallel(world(), dense_blocks()).forward(torch::Tensor()); },
                                "the input must consist of defined tensors, got an undefined tensor");
}

TW_TEST_ON(Misuse, OptionsThatDifferBetweenRanks, {.least = 2}) {
  const Guess guess = world().rank() == 0 ? Guess::previous : Guess::zero;
  expect_refused<ContractError>([&] { LayerParallel(world(), dense_blocks(), {.guess = guess}); }, "guess");
  LayerParallel net(world(), dense_blocks());
  {
    const c10::AutoGradMode gradients(world().rank() == 0);
    expect_refused<ContractError>([&] { net.forward(torch::ones({2, 4})); }, "backward pass");
  }
  const int64_t rows = world().rank() == 1 ? 3 : 2;
  expect_refused<ContractError>([&] { net.forward(State{torch::ones({2, 4})}, {torch::ones({rows})}); }, "extras");
  net.train(world().rank() != 1);
  expect_refused<ContractError>([&] { net.forward(torch::ones({2, 4})); }, "evaluation mode");
  net.train();
  EXPECT_TRUE(net.forward(torch::ones({2, 4})).equal(LayerParallel(world(), dense_blocks()).forward(torch::ones({2, 4}))));
}

/// A layer that draws random numbers, and throws on request.
struct BreakableImpl : torch::nn::Module {
  enum class When { never, forward, backward };
  BreakableImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))) {}
  torch::Tensor forward(const torch::Tensor& u) {
    const bool here = world().rank() == world().size() / 2;
    if (here && when == When::forward) throw std::runtime_error("no memory left");
    torch::Tensor y = torch::tanh(torch::dropout(linear(u), 0.5, true));
    if (here && when == When::backward && y.requires_grad()) {
      y.register_hook([](const torch::Tensor& g) -> torch::Tensor {
        if (when == When::backward) throw std::runtime_error("no memory left");
        return g;
      });
    }
    return y;
  }
  torch::nn::Linear linear;
  static inline When when = When::never;
};
TORCH_MODULE(Breakable);

/// The next pass draws the numbers that it would have drawn without the exception.
TEST(Misuse, ANetworkMakesItsNextPassAfterAnException) {
  using When = BreakableImpl::When;
  const std::vector<Block> blocks{block([] { return Breakable(); }, 8, {.random = true}), block([] { return Breakable(); }, 8, {.random = true})};
  const torch::Tensor x = torch::ones({2, 4});
  const auto pass = [&](LayerParallel& net) {
    const torch::Tensor y = net.forward(x);
    y.sum().backward();
    return y.detach();
  };
  LayerParallel undisturbed(world(), blocks);
  LayerParallel net(world(), blocks);
  for (const When when : {When::forward, When::backward}) {
    BreakableImpl::when = when;
    expect_refused<std::exception>([&] { pass(net); }, "no memory left");
    BreakableImpl::when = When::never;
    if (when == When::backward) undisturbed.forward(x);
    net.zero_grad();
    undisturbed.zero_grad();
    EXPECT_TRUE(pass(net).equal(pass(undisturbed)));
    for (size_t i = 0; i < net.parameters().size(); ++i) EXPECT_TRUE(net.parameters()[i].grad().equal(undisturbed.parameters()[i].grad())) << i;
  }
}

/// Layers that rotate a state of two numbers quickly. Coarse steps are far off, and iterations diverge before they are exact.
struct TurningImpl : torch::nn::Module {
  TurningImpl() : linear(register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)))) {
    const torch::NoGradGuard no_gradients;
    linear->weight.copy_(torch::tensor({{0.0, 40.0}, {-40.0, 0.0}}));
  }
  torch::Tensor forward(const torch::Tensor& u) { return linear(u); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Turning);

TEST(Divergence, TheSerialSolutionIsExact) {
  for (const auto& [forward, backward] : {std::pair(true, false), std::pair(false, true), std::pair(true, true)}) {
    for (const Guess guess : {Guess::zero, Guess::previous}) {
      const std::vector<Block> blocks{block([] { return Turning(); }, 32)};
      const CycleOptions cycle{.relaxations = 0, .skip_downcycle = false};
      const MgritOptions diverging{.iterations = 4, .cycle = cycle, .on_divergence = OnDivergence::serial};
      const MgritOptions exact{.iterations = 10, .cycle = cycle};
      const LayerParallelOptions options{.forward = forward ? diverging : exact, .backward = backward ? diverging : exact, .guess = guess};
      LayerParallel net(world(), blocks, options);
      SerialNetwork serial(blocks, options);
      net.to(torch::kDouble);
      serial.to(torch::kDouble);
      for (int pass = 0; pass < 2; ++pass) {
        const torch::Tensor x = torch::tensor({{1.0, 0.5}, {0.25 + pass, -1.0}}, torch::kDouble);
        net.zero_grad();
        serial.zero_grad();
        torch::Tensor ours = x.clone().set_requires_grad(true);
        torch::Tensor theirs = x.clone().set_requires_grad(true);
        const torch::Tensor y = net.forward(ours);
        y.square().sum().backward();
        const torch::Tensor expected = serial.forward(theirs);
        expected.square().sum().backward();
        EXPECT_EQ(net.report().blocks[0].forward.serial, forward);
        EXPECT_EQ(net.report().blocks[0].backward.serial, backward);
        // float64; an exact iteration has passed through values that are orders of magnitude larger
        EXPECT_LE(relative_difference(y.detach(), expected.detach()), 1e-8);
        if (world().rank() == 0) {
          EXPECT_LE(relative_difference(ours.grad(), theirs.grad()), 1e-8);
        }
        expect_gradients_equal(net, serial, 1e-8);
      }
    }
  }
}

TEST(Divergence, AGuessIsForgottenWhenItIsNotFinite) {
  LayerParallel net(world(), dense_blocks(), {.guess = Guess::previous});
  const auto pass = [&](double value) {
    const torch::Tensor y = net.forward(torch::full({2, 4}, value));
    y.sum().backward();
    return y.detach();
  };
  EXPECT_FALSE(pass(std::numeric_limits<double>::quiet_NaN()).isfinite().any().item<bool>());
  net.zero_grad();
  EXPECT_TRUE(pass(1).isfinite().all().item<bool>());
  for (const torch::Tensor& p : net.parameters()) EXPECT_TRUE(p.grad().isfinite().all().item<bool>());
}

TEST(Divergence, ASingleLevelNeedsNoGuess) {
  LayerParallel net(world(), dense_blocks(), {.levels = 1, .guess = Guess::previous});
  const torch::Tensor first = net.forward(torch::ones({2, 4}));
  first.sum().backward();
  EXPECT_TRUE(net.forward(torch::ones({2, 4})).equal(first));
}

/// Sensitivities: without backward(), and without gradients of parameters.
TEST(Gradients, OfTheInputAlone) {
  LayerParallel net(world(), {block([] { return torch::nn::Linear(3, 4); }, 1), block([] { return Dense(4); }, 16)});
  const torch::Tensor x = torch::ones({2, 3}).set_requires_grad(true);
  const torch::Tensor alone = torch::autograd::grad({net.forward(x).sum()}, {x})[0];
  net.forward(x).sum().backward();
  EXPECT_TRUE(alone.equal(x.grad()));
  const torch::Tensor of_root = alone.clone();
  broadcast(world(), of_root, Rank(0));
  EXPECT_TRUE(alone.equal(of_root)) << "the same on all ranks";
  const torch::Tensor other = torch::ones({world().rank() + 2, 3}).set_requires_grad(true);
  net.forward(other).sum().backward();
  EXPECT_EQ(other.grad().count_nonzero().item<int64_t>() > 0, world().rank() == 0 || world().size() == 1) << "whose inputs differ get none";
}

TEST(Gradients, OfLayersThatAreFrozenAndTrainedAgain) {
  for (const Batching batching : {Batching::never, Batching::automatic}) {
    const auto frozen = [] {
      Dense layer(4);
      for (torch::Tensor& p : layer->parameters()) p.set_requires_grad(false);
      return layer;
    };
    const std::vector<Block> blocks{block(frozen, 16, {.batching = batching})};
    LayerParallel net(world(), blocks, {.min_coarse = 1, .forward = {.iterations = 8}, .backward = {.iterations = 8}});
    const auto pass = [&] { net.forward(torch::ones({2, 4})).square().sum().backward(); };
    pass();
    for (const torch::Tensor& p : net.parameters()) EXPECT_FALSE(p.grad().defined());
    for (torch::Tensor& p : net.parameters()) p.set_requires_grad(true);
    pass();
    SerialNetwork serial(blocks, net.options());
    for (torch::Tensor& p : serial.parameters()) p.set_requires_grad(true);
    serial.forward(torch::ones({2, 4})).square().sum().backward();
    expect_gradients_equal(net, serial, 1e-4);  // float32, over 16 layers
  }
}

}  // namespace misuse_test
}  // namespace tw::layer_parallel
