// SPDX-License-Identifier: Apache-2.0
// Random networks and options: with enough iterations, each equals the same network in one process, in training and evaluation, over several passes.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <random>
#include <sstream>
#include <tw/layer_parallel/layer_parallel.hpp>

namespace tw::layer_parallel {
namespace generated_networks_test {

using testing::world;
using torch::Tensor;

/// du/dt of a layer with randomly chosen parts.
struct PartsImpl : torch::nn::Module {
  struct Choice {
    int64_t width = 4;
    bool norm = false;
    bool dropout = false;
    bool gelu = false;
    bool frozen_bias = false;
  };
  explicit PartsImpl(const Choice& choice) : choice_(choice), linear(register_module("linear", torch::nn::Linear(choice.width, choice.width))) {
    if (choice.norm) norm = register_module("norm", torch::nn::BatchNorm1d(choice.width));
    if (choice.frozen_bias) linear->bias.set_requires_grad(false);
  }
  Tensor forward(const Tensor& u) {
    Tensor v = linear(u);
    if (norm) v = norm(v);
    v = choice_.gelu ? torch::gelu(v) : torch::tanh(v);
    return choice_.dropout ? torch::dropout(v, 0.3, is_training()) : v;
  }
  Choice choice_;
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Parts);

struct Generated {
  std::vector<Block> blocks;
  LayerParallelOptions options;
  int64_t inputs = 4;
  std::string text;
};

Generated generated(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<int64_t>(random() % n); };
  Generated net;
  std::ostringstream text;
  text << "seed " << seed << ':';
  int64_t width = net.inputs = 2 + below(4);
  int64_t max_layers = 0;
  const auto plain = [&] {
    const int64_t from = std::exchange(width, 2 + below(4));
    const bool drops = below(3) == 0;
    net.blocks.push_back(
        block([from, to = width, drops] { return torch::nn::Sequential(torch::nn::Linear(from, to), torch::nn::Dropout(drops ? 0.3 : 0.0)); }, 1));
    text << " plain to " << width << (drops ? " with dropout" : "") << ',';
  };
  if (below(2) == 0) plain();
  const int64_t odes = 1 + below(2);
  for (int64_t i = 0; i < odes; ++i) {
    const PartsImpl::Choice choice{width, below(4) == 0, below(3) == 0, below(2) == 0, below(4) == 0};
    const int64_t layers = 5 + below(10);
    const auto integrator = std::array{Integrator::euler, Integrator::rk2, Integrator::rk4}[static_cast<size_t>(choice.norm ? 0 : below(3))];
    const Batching batching = below(3) == 0 ? Batching::never : Batching::automatic;
    max_layers = std::max(max_layers, layers);
    net.blocks.push_back(block([choice] { return Parts(choice); }, layers, {integrator, batching, choice.dropout}));
    text << ' ' << layers << " layers of " << width << (choice.norm ? ", batch norm" : "") << (choice.dropout ? ", dropout" : "")
         << (choice.frozen_bias ? ", frozen bias" : "") << ", integrator " << static_cast<int>(integrator) << ',';
    if (below(2) == 0) plain();
  }
  LayerParallelOptions& o = net.options;
  o.levels = static_cast<int>(1 + below(3));
  o.coarsening = 2 + below(3);
  o.min_coarse = 1;
  o.forward.iterations = o.backward.iterations = static_cast<int>(max_layers / 2) + 3;  // all intervals, and one more with skip
  o.forward.cycle.relaxations = static_cast<int>(below(2));
  o.backward.cycle.skip_downcycle = below(2) == 0;
  o.guess = below(3) == 0 ? Guess::previous : Guess::zero;
  o.recompute = below(2) == 0;
  o.front_layers = below(3) == 0 ? 1 : 0;
  o.back_layers = below(3) == 0 ? 2 : 0;
  o.seed = seed;
  text << " levels " << o.levels << ", c " << o.coarsening.at(0) << (o.recompute ? ", recompute" : "")
       << (o.guess == Guess::previous ? ", guess" : "") << ", front " << o.front_layers << ", back " << o.back_layers;
  net.text = text.str();
  return net;
}

TEST(GeneratedNetworks, AreThoseOfOneProcess) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    const Generated of = generated(seed);
    LayerParallel net(world(), of.blocks, of.options);
    SerialNetwork serial(of.blocks, of.options);
    net.to(torch::kDouble);
    serial.to(torch::kDouble);
    torch::manual_seed(seed);
    for (const bool training : {true, true, false}) {
      const Tensor x = torch::randn({5, of.inputs}, torch::kDouble);
      Tensor ours = x.clone().set_requires_grad(true);
      Tensor theirs = x.clone().set_requires_grad(true);
      net.train(training);
      serial.train(training);
      net.zero_grad();
      serial.zero_grad();
      const Tensor y = net.forward(ours);
      const Tensor expected = serial.forward(theirs);
      y.sin().sum().backward();
      expected.sin().sum().backward();
      // float64, over up to 40 layers; iterations pass through larger values before they are exact
      EXPECT_LE(relative_difference(y.detach(), expected.detach()), 1e-9) << of.text;
      EXPECT_LE(relative_difference(ours.grad(), theirs.grad()), 1e-9) << of.text;
      expect_gradients_equal(net, serial, 1e-9);
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << of.text;
      return;
    }
  }
}

}  // namespace generated_networks_test
}  // namespace tw::layer_parallel
