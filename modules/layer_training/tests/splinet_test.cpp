// SPDX-License-Identifier: Apache-2.0
// Splines in depth: gradients of control points, for any number of ranks.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <map>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/comm/full_tensors.hpp>
#include <tw/layer_training/splinet.hpp>

namespace tw::layer_training {
namespace splinet_test {

using namespace layer_parallel;
using testing::world;

std::vector<Block> blocks() {
  return {block([] { return torch::nn::Linear(3, 4); }, 1), block([] { return Dense(4); }, 14), block([] { return torch::nn::Linear(4, 2); }, 1),
          block([] { return Dense(2); }, 6)};
}

std::shared_ptr<LayerParallel> network(const Communicator& comm) {
  auto net = std::make_shared<LayerParallel>(
      comm, blocks(), LayerParallelOptions{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 12}, .backward = {.iterations = 12}});
  net->to(torch::kDouble);
  return net;
}

const LossFunction squares = [](const at::Tensor& outputs, const at::Tensor& targets) { return (outputs - targets).square().mean(); };

struct Data {
  Data() {
    torch::manual_seed(2);
    inputs = torch::randn({5, 3}, torch::kDouble);
    targets = torch::randn({5, 2}, torch::kDouble);
  }
  torch::Tensor inputs;
  torch::Tensor targets;
};

double loss_of(TrainableModel& model, const Data& data) { return squares(model.forward(data.inputs), data.targets).item<double>(); }

void pass(TrainableModel& model, const Data& data, double weight = 1) { model.pass({data.inputs, data.targets, squares, weight}); }

std::map<std::string, torch::Tensor> controls_of(const SpliNet& model) {
  std::map<std::string, torch::Tensor> controls;
  for (const auto& [name, tensor] : model.tensors().parameters) {
    if (name.ends_with(".control_points")) controls[name] = tensor;
  }
  return controls;
}

TEST(SpliNet, LayersAreValuesOfTheCurve) {
  const auto net = network(world());
  SpliNet model(net, {.control_points = 2, .degree = 1});
  const torch::Tensor controls = controls_of(model).at("1.linear.weight.control_points");
  EXPECT_EQ(controls.sizes(), (std::vector<int64_t>{2, 4, 4}));
  model.forward(Data().inputs);
  for (const NamedShard& shard : net->shards()) {
    if (shard.name != "1.linear.weight") continue;
    for (int64_t i = 0; i < shard.tensor.size(0); ++i) {
      const double t = (static_cast<double>(shard.offsets[0] + i) + 0.5) / 14;  // a line, evaluated at the middles of 14 steps
      EXPECT_LE(relative_difference(shard.tensor[i], (1 - t) * controls[0] + t * controls[1]), 1e-14) << shard.offsets[0] + i;
    }
  }
}

TEST(SpliNet, GradientsAreThoseOfFiniteDifferences) {
  const Data data;
  for (const int degree : {0, 1, 3}) {
    SpliNet model(network(world()), {.control_points = 5, .degree = degree});
    for (const auto& [name, controls] : controls_of(model)) controls.detach().mul_(1.5);  // as an optimizer changes them
    pass(model, data);
    ASSERT_EQ(controls_of(model).size(), 4U) << "weights and biases of two blocks";
    for (const auto& [name, controls] : controls_of(model)) {
      torch::manual_seed(3);
      const torch::Tensor direction = torch::randn_like(controls);
      // Central difference: error eps^2 times third derivatives, plus 1e-16 / eps of rounding.
      constexpr double eps = 1e-5;
      const torch::NoGradGuard no_gradients;
      controls.add_(direction, eps);
      const double above = loss_of(model, data);
      controls.sub_(direction, 2 * eps);
      const double below = loss_of(model, data);
      controls.add_(direction, eps);
      EXPECT_NEAR(controls.grad().mul(direction).sum().item<double>(), (above - below) / (2 * eps), 1e-8) << name << ", degree " << degree;
    }
  }
}

/// Against the same training on each rank alone; the order of sums differs.
TEST(SpliNet, EqualsOneProcess) {
  const Data data;
  const auto train = [&](SpliNet& model) {
    torch::optim::SGD sgd(model.tensors().tensors(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 5; ++step) {
      sgd.zero_grad();
      pass(model, data, 0.5);
      pass(model, data, 0.5);  // gradients accumulate
      sgd.step();
    }
    return loss_of(model, data);
  };
  const Communicator alone = world().split(world().rank(), 0);
  SpliNet ours(network(world()), {.control_points = 6, .degree = 3});
  SpliNet theirs(network(alone), {.control_points = 6, .degree = 3});
  const double before = loss_of(theirs, data);
  const double expected = train(theirs);
  EXPECT_NEAR(train(ours), expected, 1e-11 * expected);
  EXPECT_LT(expected, 0.9 * before);
  const auto controls = controls_of(ours);
  for (const auto& [name, tensor] : controls_of(theirs)) EXPECT_LE(relative_difference(controls.at(name), tensor), 1e-11) << name;
}

/// Each step of a piecewise constant curve is a layer.
TEST(SpliNet, AsManyPiecesAsLayersAreTheNetworkItself) {
  const Data data;
  const auto options = LayerParallelOptions{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 12}, .backward = {.iterations = 12}};
  const auto make = [&] {
    auto net = std::make_shared<LayerParallel>(
        world(), std::vector<Block>{block([] { return Dense(3); }, 13), block([] { return torch::nn::Linear(3, 2); }, 1)}, options);
    net->to(torch::kDouble);
    return net;
  };
  const auto net = make();
  SpliNet model(make(), {.control_points = 13, .degree = 0});
  pass(*net, data);
  pass(model, data);
  EXPECT_EQ(loss_of(*net, data), loss_of(model, data));
  const auto controls = controls_of(model);
  for (const OptimizedTensor& p : net->optimized_tensors()) {
    const NamedShard& shard = p.slices[0];
    if (!shard.name.starts_with("0.")) continue;
    const torch::Tensor ours = controls.at(shard.name + ".control_points").grad().narrow(0, shard.offsets[0], p.tensor.size(0));
    EXPECT_TRUE(ours.equal(p.tensor.grad())) << shard.name;
  }
}

/// One piece: the gradient is the sum over layers, which are all equal.
TEST(SpliNet, OnePieceAreTiedWeights) {
  const Data data;
  const auto make = [] {
    auto net = std::make_shared<LayerParallel>(
        world(), std::vector<Block>{block([] { return Dense(3); }, 13), block([] { return torch::nn::Linear(3, 2); }, 1)},
        LayerParallelOptions{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 12}, .backward = {.iterations = 12}});
    net->to(torch::kDouble);
    return net;
  };
  SpliNet model(make(), {.control_points = 1, .degree = 0});
  const auto net = make();
  const auto controls = controls_of(model);
  for (const OptimizedTensor& p : net->optimized_tensors()) {
    const auto found = controls.find(p.slices[0].name + ".control_points");
    if (found != controls.end()) p.tensor.detach().copy_(found->second.detach().expand_as(p.tensor));
  }
  pass(model, data);
  pass(*net, data);
  for (const auto& [name, tied] : controls) {
    torch::Tensor sum = torch::zeros_like(tied);
    for (const OptimizedTensor& p : net->optimized_tensors()) {
      if (p.slices[0].name + ".control_points" == name) sum = p.tensor.grad().sum(0, /*keepdim=*/true).contiguous();
    }
    allreduce(world(), sum, ReduceOp::sum);
    EXPECT_LE(relative_difference(tied.grad(), sum), 1e-13) << name;
  }
}

TEST(SpliNet, ExportsLayersInPlaceOfControlPoints) {
  const Data data;
  const auto net = network(world());
  SpliNet model(net, {.control_points = 4, .degree = 2});
  for (const auto& [name, controls] : controls_of(model)) controls.detach().fill_(0.25);
  const std::vector<NamedTensor> all = full_tensors_on_root(world(), model.exported_shards());
  ASSERT_EQ(all.empty(), world().rank() != 0);
  for (const auto& [name, tensor] : all) {
    EXPECT_EQ(name.find("control_points"), std::string::npos) << name;
    if (name.find("linear") != std::string::npos) {
      EXPECT_TRUE(tensor.allclose(torch::full_like(tensor, 0.25))) << name;
    }
  }
}

TEST(SpliNet, CheckpointsFitNetworksOfAnyDepth) {
  const auto parameters_of = [](int64_t layers) {
    const SpliNet model(std::make_shared<LayerParallel>(world(), std::vector<Block>{block([] { return Dense(3); }, layers)}),
                        {.control_points = 4, .degree = 2});
    std::vector<std::pair<std::string, std::vector<int64_t>>> parameters;
    for (const NamedShard& shard : model.shards()) parameters.emplace_back(shard.name, shard.global_shape);
    return parameters;
  };
  EXPECT_EQ(parameters_of(8), parameters_of(20));
  EXPECT_EQ(parameters_of(8).size(), 2U);
}

TEST(SpliNet, RefusesWhatDoesNotFit) {
  const auto expect_refused = [](const SpliNetOptions& options, const std::string& text) {
    const auto net = network(world());
    try {
      SpliNet model(net, options);
      ADD_FAILURE() << "expected: " << text;
    } catch (const ContractError& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
  };
  expect_refused({.control_points = 3, .degree = 3}, "control_points must be more than degree 3");
  expect_refused({.control_points = 7, .degree = 3}, "control_points must be at most 6, the number of layers of block 3");
  expect_refused({.degree = -1}, "degree");
}

}  // namespace splinet_test
}  // namespace tw::layer_training
