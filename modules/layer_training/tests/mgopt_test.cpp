// SPDX-License-Identifier: Apache-2.0
// MG/OPT on networks with their layers in parallel, between levels that are split over ranks at different layers.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <cmath>
#include <map>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/full_tensors.hpp>
#include <tw/layer_training/mgopt.hpp>

namespace tw::layer_training {
namespace mgopt_test {

using namespace layer_parallel;
using testing::world;

std::vector<Block> blocks(int64_t layers, int64_t second) {
  return {block([] { return torch::nn::Linear(3, 4); }, 1), block([] { return Dense(4); }, layers), block([] { return torch::nn::Linear(4, 5); }, 1),
          block([] { return Dense(5); }, second), block([] { return torch::nn::Linear(5, 2); }, 1)};
}

std::shared_ptr<LayerParallel> network(const Communicator& comm, int64_t layers, int64_t second) {
  auto net = std::make_shared<LayerParallel>(
      comm, blocks(layers, second),
      LayerParallelOptions{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 14}, .backward = {.iterations = 14}});
  net->to(torch::kDouble);
  return net;
}

const LossFunction squares = [](const at::Tensor& outputs, const at::Tensor& targets) { return (outputs - targets).square().mean(); };

struct Data {
  Data() {
    torch::manual_seed(1);
    inputs = torch::randn({6, 3}, torch::kDouble);
    targets = torch::randn({6, 2}, torch::kDouble);
  }
  torch::Tensor inputs;
  torch::Tensor targets;
};

using Tensors = std::map<std::string, torch::Tensor>;

/// Whole parameters, or their whole gradients, on every rank.
Tensors whole(const LayerParallel& net, bool gradients) {
  std::vector<NamedShard> shards;
  for (const OptimizedTensor& parameter : net.optimized_tensors()) {
    NamedShard shard = parameter.slices.at(0);
    if (gradients) shard.tensor = parameter.tensor.grad();
    shards.push_back(shard);
  }
  Tensors all;
  for_each_full_tensor(net.comm(), shards, [&](const std::string& name, const at::Tensor& values) { all[name] = values.clone(); });
  return all;
}

Tensors gradients_of(LayerParallel& net, const Data& data) {
  net.zero_grad();
  squares(net.forward(data.inputs), data.targets).backward();
  return whole(net, true);
}

torch::Tensor sum_over_children(const torch::Tensor& fine, const torch::Tensor& coarse) {
  return fine.sizes() == coarse.sizes() ? fine : fine.unflatten(0, {coarse.size(0), -1}).sum(1);
}

/// One coarse step of rate 1 goes from x_H to x_H - P^T g for any coarse network, because the shift removes the network's own gradient there. The
/// correction is -P P^T g, of which the finest network applies alpha.
TEST(MgOpt, TheCoarseObjectiveHasTheGradientOfTheFineOne) {
  const Data data;
  for (const int64_t c : {2, 3}) {
    const auto fine = network(world(), 12, 6);
    const auto coarse = network(world(), 12 / c, c == 2 ? 3 : 6);  // one block is coarsened; whether the other is depends on c
    const Tensors before = whole(*fine, false);
    const Tensors gradients = gradients_of(*fine, data);
    constexpr double rate = 1e-3;
    MgOpt mgopt({fine, coarse}, {.learning_rate = rate, .post_steps = 0, .coarse_steps = 1});
    const MgOptReport report = mgopt.step(data.inputs, data.targets, squares);
    ASSERT_EQ(report.corrections.at(0).alpha, 1);

    double slope = 0;
    const Tensors after = whole(*fine, false);
    const Tensors shape = whole(*coarse, false);
    for (const auto& [name, value] : after) {
      const torch::Tensor seen = sum_over_children(gradients.at(name), shape.at(name));
      slope -= rate * seen.square().sum().item<double>();
      const bool is_coarser = seen.sizes() != value.sizes();
      const torch::Tensor expected = is_coarser ? seen.repeat_interleave(value.size(0) / seen.size(0), 0) : seen;
      // Parameters of about 1 change by 1e-3 times gradients of about 0.1: a rounding error of 1e-16 is 1e-12 of that.
      EXPECT_LE(relative_difference((before.at(name) - value) / rate, expected), 1e-11) << name << ", c = " << c;
    }
    EXPECT_NEAR(report.corrections[0].slope, slope, 1e-12 * std::abs(slope));
  }
}

/// The coarse network begins at the means of the layers, and with a negligible step it stays there.
TEST(MgOpt, TheCoarseNetworkBeginsAtTheMeansOfLayers) {
  const Data data;
  const auto fine = network(world(), 12, 6);
  const auto coarse = network(world(), 4, 2);
  const Tensors values = whole(*fine, false);
  MgOpt mgopt({fine, coarse}, {.learning_rate = 1e-30, .post_steps = 0, .coarse_steps = 1});
  mgopt.step(data.inputs, data.targets, squares);
  for (const auto& [name, value] : whole(*coarse, false)) {
    const torch::Tensor& children = values.at(name);
    const torch::Tensor mean = value.sizes() == children.sizes() ? children : children.unflatten(0, {value.size(0), -1}).mean(1);
    EXPECT_LE(relative_difference(value, mean), 1e-14) << name;
  }
}

struct Trained {
  std::vector<MgOptReport> reports;
  Tensors parameters;
};

Trained train(const Communicator& comm, int steps) {
  const Data data;
  const auto net = network(comm, 16, 8);
  MgOpt mgopt({net, network(comm, 8, 4), network(comm, 4, 2)}, {.learning_rate = {0.1, 0.05}, .pre_steps = 1, .post_steps = 1, .coarse_steps = 3});
  Trained trained;
  for (int i = 0; i < steps; ++i) trained.reports.push_back(mgopt.step(data.inputs, data.targets, squares));
  trained.parameters = whole(*net, false);
  return trained;
}

/// Against the same training on each rank alone. With plenty of iterations, only the order of sums differs.
TEST(MgOpt, EqualsOneProcess) {
  const Trained ours = train(world(), 4);
  const Communicator alone = world().split(world().rank(), 0);
  const Trained expected = train(alone, 4);
  for (size_t i = 0; i < expected.reports.size(); ++i) {
    EXPECT_NEAR(ours.reports[i].loss_after, expected.reports[i].loss_after, 1e-11 * expected.reports[i].loss_after);
    EXPECT_EQ(ours.reports[i].work, expected.reports[i].work);
    for (size_t l = 0; l < 2; ++l) {
      EXPECT_EQ(ours.reports[i].corrections[l].alpha, expected.reports[i].corrections[l].alpha);
      EXPECT_NEAR(ours.reports[i].corrections[l].slope, expected.reports[i].corrections[l].slope,
                  1e-10 * std::abs(expected.reports[i].corrections[l].slope));
    }
  }
  for (const auto& [name, value] : expected.parameters) EXPECT_LE(relative_difference(ours.parameters.at(name), value), 1e-11) << name;
}

TEST(MgOpt, AStepReducesTheLoss) {
  const Trained trained = train(world(), 6);
  for (size_t i = 0; i + 1 < trained.reports.size(); ++i) {
    EXPECT_FALSE(trained.reports[i].corrections[0].is_cancelled()) << i;
    EXPECT_LT(trained.reports[i].loss_after, trained.reports[i].loss_before) << i;
    EXPECT_LT(trained.reports[i + 1].loss_before, trained.reports[i].loss_after) << "a step of the finest level follows";
  }
  // Finest level: one gradient before the step, one after it, and one at the end of the line search, with which the last step is made. Middle level:
  // half of that. Coarsest level: three, the first at the start of the correction.
  EXPECT_NEAR(trained.reports[0].work, 3 + 3 / 2.0 + 3 / 4.0, 1e-12);
}

/// The layers' gain is not trained, but must be the same on coarse levels.
struct GainImpl : torch::nn::Module {
  explicit GainImpl(double value) : linear(register_module("linear", torch::nn::Linear(4, 4))) {
    gain = register_parameter("gain", torch::full({1}, value), /*requires_grad=*/false);
  }
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)) * gain; }
  torch::nn::Linear linear;
  torch::Tensor gain;
};
TORCH_MODULE(Gain);

TEST(MgOpt, CoarseNetworksGetWhatIsNotTrained) {
  const auto net = [](int64_t layers, double gain) {
    return std::make_shared<LayerParallel>(world(), std::vector<Block>{block([gain] { return Gain(gain); }, layers)});
  };
  const auto fine = net(8, 0.5);
  const auto coarse = net(4, 3);
  MgOpt mgopt({fine, coarse});
  mgopt.step(torch::ones({2, 4}), torch::zeros({2, 4}), squares);
  for (const auto& each : {fine, coarse}) {
    for (const auto& p : each->named_parameters()) {
      if (p.key() == "0.gain") {
        EXPECT_TRUE(p.value().eq(0.5).all().item<bool>());
      }
    }
  }
}

/// Expects an error on every rank, so that no rank waits.
void expect_refused(const std::function<void()>& f, const std::string& text) {
  try {
    f();
    ADD_FAILURE() << "expected: " << text;
  } catch (const ContractError& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST(MgOpt, RefusesNetworksThatDoNotFit) {
  expect_refused([] { MgOpt({network(world(), 7, 4), network(world(), 3, 2)}); }, "block 1 has 7 layers in network 0 and 3 in network 1");
  expect_refused([] { MgOpt({network(world(), 8, 4), network(world(), 4, 3)}); }, "block 3 has 4 layers in network 0 and 3 in network 1");
  expect_refused([] { MgOpt({network(world(), 12, 4), network(world(), 6, 2), network(world(), 4, 2)}); },
                 "6 layers in network 1 and 4 in network 2");
  expect_refused([] { MgOpt({network(world(), 4, 4), network(world(), 8, 4)}); }, "each network must have a multiple of the layers of the next");
  expect_refused([] { MgOpt({network(world(), 4, 4)}); }, "at least two networks");
  const auto single = std::make_shared<LayerParallel>(world(), blocks(4, 2));
  expect_refused([&] { MgOpt({network(world(), 8, 4), single}); }, "with the dtype that it has in the adjacent network");
  const auto other = std::make_shared<LayerParallel>(
      world(), std::vector<Block>{block([] { return torch::nn::Linear(3, 4); }, 1), block([] { return Dense(4); }, 4)});
  expect_refused([&] { MgOpt({std::make_shared<LayerParallel>(world(), blocks(8, 4)), other}); }, "block 3 is an ODE block of network 0");
}

}  // namespace mgopt_test
}  // namespace tw::layer_training
