// SPDX-License-Identifier: Apache-2.0
// Random layers and running statistics: the same in all sweeps of a pass, equal to one process, and different in each replica.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <string>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/mpi/error.hpp>

namespace tw::layer_parallel {
namespace random_layers_test {

using testing::world;
using torch::Tensor;

/// du/dt with dropout; in evaluation too if `always` is set.
struct DroppingImpl : torch::nn::Module {
  explicit DroppingImpl(double p = 0.5, bool always = false) : p_(p), always_(always), linear(register_module("linear", torch::nn::Linear(4, 4))) {}
  Tensor forward(const Tensor& u) { return torch::dropout(torch::tanh(linear(u)), p_, always_ || is_training()); }
  double p_;
  bool always_;
  torch::nn::Linear linear;
};
TORCH_MODULE(Dropping);

const LayerParallelOptions exact{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 6}, .backward = {.iterations = 6}};

/// The message of the error that `f` throws on this rank, also if another rank's error releases this one; empty: none.
template <class F>
std::string refusal(const F& f) {
  std::string text;
  try {
    f();
  } catch (const ContractError& e) {
    text = e.what();
  } catch (const RevokedError& e) {
    text = e.what();
  }
  return text;
}

TEST(RandomLayers, AreMarkedOrRefusedInTheFirstPass) {
  const Tensor x = torch::ones({3, 4});
  for (const Batching batching : {Batching::automatic, Batching::never}) {
    for (const bool recompute : {false, true}) {
      LayerParallelOptions options = exact;
      options.recompute = recompute;
      LayerParallel net(world(), {block([] { return Dropping(); }, 8, {.batching = batching})}, options);
      const std::string said = refusal([&] { net.forward(x); });
      EXPECT_NE(said.find("draws random numbers (aten::dropout)"), std::string::npos) << said;
      net.eval();
      EXPECT_EQ(refusal([&] { net.forward(x); }), "");
    }
  }
  LayerParallel quiet(world(), {block([] { return Dropping(0.0); }, 8)}, exact);
  EXPECT_EQ(refusal([&] { quiet.forward(x); }), "");
  LayerParallel always(world(), {block([] { return Dropping(0.5, true); }, 8, {.random = true})}, exact);
  EXPECT_EQ(refusal([&] { always.forward(x); }), "");
  always.eval();
  EXPECT_NE(refusal([&] { always.forward(x); }).find("In evaluation mode a layer must draw none"), std::string::npos);
}

TEST(RandomLayers, DrawAsOneProcessDoesAndOtherwiseInEachReplica) {
  const auto plain = [] { return torch::nn::Dropout(0.5); };
  const std::vector<Block> blocks{block(plain, 1), block([] { return Dropping(); }, 8, {.random = true}), block(plain, 1)};
  const Tensor x = torch::ones({5, 4}, torch::kDouble);
  std::vector<Tensor> first;
  for (const int64_t replica : {0, 1}) {
    LayerParallel net(world(), blocks, exact);
    SerialNetwork serial(blocks, exact);
    net.to(torch::kDouble);
    serial.to(torch::kDouble);
    net.set_replica(replica);
    serial.set_replica(replica);
    Tensor before;
    for (int pass = 0; pass < 3; ++pass) {
      torch::manual_seed(static_cast<uint64_t>(100 * pass + world().rank()));  // must have no influence
      const Tensor y = net.forward(x).detach();
      EXPECT_LE(relative_difference(y, serial.forward(x).detach()), 1e-12) << "replica " << replica << ", pass " << pass;
      if (pass == 0) first.push_back(y);
      if (pass == 1) {
        EXPECT_FALSE(y.equal(first.back()));
      }
    }
    const auto whole = net.serial_on_root();
    if (whole) {
      EXPECT_LE(relative_difference(whole->forward(x).detach(), serial.forward(x).detach()), 1e-12);
    }
  }
  EXPECT_FALSE(first[0].equal(first[1]));
}

struct NormalisedImpl : torch::nn::Module {
  NormalisedImpl() : linear(register_module("linear", torch::nn::Linear(4, 4))), norm(register_module("norm", torch::nn::BatchNorm1d(4))) {}
  Tensor forward(const Tensor& u) { return torch::tanh(norm(linear(u))); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Normalised);

/// A pass in evaluation mode, a pass in training mode that updates the statistics, and then the backward pass of the first.
TEST(RunningStatistics, AreThoseOfTheForwardPassInItsBackwardPass) {
  torch::manual_seed(2);
  const Tensor x = torch::randn({6, 4}, torch::kDouble);
  for (const bool recompute : {false, true}) {
    std::vector<std::vector<Tensor>> gradients;
    std::vector<Tensor> statistics;
    for (const bool disturbed : {false, true}) {
      LayerParallelOptions options = exact;
      options.recompute = recompute;
      LayerParallel net(world(), {block([] { return Normalised(); }, 8)}, options);
      net.to(torch::kDouble);
      net.eval();
      const Tensor y = net.forward(x).sin().sum();
      if (disturbed) {
        net.train();
        const torch::NoGradGuard no_gradients;
        net.forward(10 * x + 3);
        for (const Tensor& buffer : net.buffers()) statistics.push_back(buffer.clone());
      }
      y.backward();
      gradients.emplace_back();
      for (const Tensor& p : net.parameters()) gradients.back().push_back(p.grad());
      for (size_t i = 0; i < statistics.size(); ++i) EXPECT_TRUE(net.buffers()[i].equal(statistics[i])) << "left as they were";
    }
    for (size_t i = 0; i < gradients[0].size(); ++i) EXPECT_TRUE(gradients[0][i].equal(gradients[1][i])) << i << ", " << recompute;
  }
}

/// The norm of every second layer is frozen at construction.
Normalised partly_frozen(int64_t layer) {
  Normalised made;
  if (layer % 2 == 1) made->norm->eval();
  return made;
}

std::string letters_of(torch::nn::Module& module) {
  std::string letters;
  for (const auto& each : module.modules()) letters += each->is_training() ? 't' : 'e';
  return letters;
}

// Trained, evaluated and trained again by a trainer that only calls set_training().
TEST(Modes, PartsThatEvalHasFrozenStayFrozen) {
  const std::vector<Block> blocks{block([] { return torch::nn::BatchNorm1d(4); }, 1), block(partly_frozen, 8), block(partly_frozen, 4)};
  SerialNetwork serial(blocks, exact);
  LayerParallel net(world(), blocks, exact);
  serial.to(torch::kDouble);
  net.to(torch::kDouble);
  const auto freeze = [](torch::nn::Module& module) {
    const auto parts = module.named_children();
    if (const auto* plain = parts.find("0")) (*plain)->eval();
    parts["2"]->eval();  // a block as a whole
  };
  freeze(serial);
  freeze(net);
  torch::manual_seed(3);
  const Tensor x = torch::randn({6, 4}, torch::kDouble);
  for (int epoch = 0; epoch < 2; ++epoch) {
    net.set_training(true);
    EXPECT_LE(relative_difference(net.forward(x).detach(), serial.forward(x).detach()), 1e-12) << "epoch " << epoch;
    for (int i = 0; i < 2; ++i) net.set_training(false);
    const torch::NoGradGuard no_gradients;
    net.forward(x);
  }
  net.set_training(true);
  const auto whole = net.serial_on_root();
  if (!whole) return;
  for (size_t block = 0; block < blocks.size(); ++block) {
    for (size_t k = 0; k < serial.layers(block).size(); ++k) {
      torch::nn::Module& ours = *whole->layers(block)[k].module;
      torch::nn::Module& theirs = *serial.layers(block)[k].module;
      EXPECT_EQ(letters_of(ours), letters_of(theirs)) << "layer " << k << " of block " << block;
      const auto buffers = theirs.named_buffers();
      for (const auto& each : ours.named_buffers()) {
        EXPECT_LE((each.value() - buffers[each.key()]).abs().max().item<double>(), 1e-12) << each.key() << " of layer " << k << " of block " << block;
      }
    }
  }
}

TEST(Modes, AreThoseOfTheForwardPassInItsBackwardPass) {
  torch::manual_seed(4);
  const Tensor x = torch::randn({6, 4}, torch::kDouble);
  LayerParallelOptions options = exact;
  options.recompute = true;
  std::vector<std::vector<Tensor>> gradients;
  for (const bool evaluated : {false, true}) {
    LayerParallel net(world(), {block(partly_frozen, 8)}, options);
    net.to(torch::kDouble);
    const Tensor y = net.forward(x).sin().sum();
    if (evaluated) net.eval();
    y.backward();
    EXPECT_EQ(net.is_training(), !evaluated);
    gradients.emplace_back();
    for (const Tensor& p : net.parameters()) gradients.back().push_back(p.grad());
  }
  for (size_t i = 0; i < gradients[0].size(); ++i) EXPECT_TRUE(gradients[0][i].equal(gradients[1][i])) << i;
}

}  // namespace random_layers_test
}  // namespace tw::layer_parallel
