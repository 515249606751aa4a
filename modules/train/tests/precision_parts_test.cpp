// SPDX-License-Identifier: Apache-2.0
// Models in parts, in half precision, equal one process, even if backward passes recompute what the forward pass did not keep.
#include "support.hpp"

#include <cmath>
#include <functional>
#include <tw/autograd/autocast.hpp>
#include <tw/autograd/recomputed.hpp>
#include <tw/base/contract.hpp>
#include <tw/layer_parallel/iteration_control.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/layer_parallel/sequence_model.hpp>
#include <tw/layer_training/splinet.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/pipeline/planned_model.hpp>

namespace precision_parts_test {

using tw::ComputeType;
using tw::Mesh;
using tw::testing::world;
using tw::train::Model;
using tw::train::model_of;
using tw::train::Options;

Options options_for(const std::string& name, ComputeType compute = ComputeType::bfloat16) {
  Options options = tw::testing::quick("precision_parts_" + name);
  options.epochs = 2;
  options.global_batch = 12;
  options.precision.compute = compute;
  options.precision.loss_scale = {.scale = 1024};
  return options;
}

struct Trained {
  tw::train::Summary summary;
  std::vector<at::Tensor> parameters;  // all of them, on rank 0 of those that hold a model
  at::ScalarType outputs = at::kFloat;
};

/// Parameters and buffers of a whole model on rank 0.
using TensorsOnRoot = std::function<std::vector<tw::NamedTensor>()>;

/// Makes 8 updates. @param whole empty: each rank has the whole model
Trained train(const Mesh& mesh, const Model& model, const Options& options, const TensorsOnRoot& whole = {}) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05));
  const auto data = tw::testing::rows(48);
  tw::train::Trainer trainer(mesh, model, sgd, tw::train::classification(), data, data, options, &data);
  Trained trained;
  trained.summary = trainer.run();
  for (const tw::NamedTensor& each : whole ? whole() : model.all_tensors()) trained.parameters.push_back(each.tensor.detach().clone());
  return trained;
}

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += (a[i] - b[i]).square().sum(at::kDouble).item<double>();
  return std::sqrt(sum);
}

/// Rank 0 has the parameters to compare.
void expect_bits(const Trained& ours, const Trained& expected) {
  ASSERT_EQ(ours.parameters.empty(), world().rank() != 0);
  EXPECT_TRUE(ours.parameters.empty() || tw::testing::bitwise_equal(ours.parameters, expected.parameters));
}
void expect_within(double tolerance, const Trained& ours, const Trained& expected) {
  ASSERT_EQ(ours.parameters.empty(), world().rank() != 0);
  if (ours.parameters.empty()) return;
  EXPECT_LE(distance(ours.parameters, expected.parameters), tolerance);
}

// A whole model.

at::Tensor in_float32(torch::nn::Linear& linear, const at::Tensor& x) {
  const tw::AutocastScope plain(tw::AutocastState::here().off());
  return linear(x.to(torch::kFloat));
}

/// A layer excluded from autocast, including its backward pass.
struct FullImpl : torch::nn::Module {
  FullImpl() : linear(register_module("linear", torch::nn::Linear(32, 32))) {}
  torch::Tensor forward(const torch::Tensor& x) { return in_float32(linear, x); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Full);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    for (int64_t i = 0; i < 4; ++i) {
      layers.push_back(register_module("l" + std::to_string(i), torch::nn::Linear(i == 0 ? 784 : 32, i == 3 ? 10 : 32)));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x.flatten(1);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto layer = [&, i](const at::Tensor& h) {
        const at::Tensor y = full && i == 2 ? in_float32(layers[i], h) : layers[i](h);
        return i + 1 < layers.size() ? torch::tanh(y) : y;
      };
      x = recomputes ? tw::recomputed(layer, x) : layer(x);
    }
    return x;
  }
  std::vector<torch::nn::Linear> layers;
  bool recomputes = false;
  bool full = false;  // for layer 2
};
TORCH_MODULE(Net);

Net make_net() {
  torch::manual_seed(3);
  return Net();
}

Trained train_whole(const Options& options, bool recomputes = false, bool full = false) {
  const tw::Communicator alone = world().split(world().rank(), 0);
  Net net = make_net();
  net->recomputes = recomputes;
  net->full = full;
  return train(Mesh(alone, {{"data"}}), model_of(net), options);
}

std::vector<at::Tensor> initial() {
  const Net net = make_net();
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : net->parameters()) all.push_back(each.detach());
  return all;
}

TEST(PrecisionOfParts, RecomputedFunctionsHaveTheBitsOfOthers) {
  for (const auto compute : {ComputeType::bfloat16, ComputeType::float16}) {
    const auto plain = train_whole(options_for("plain", compute));
    EXPECT_TRUE(tw::testing::bitwise_equal(train_whole(options_for("recomputed", compute), true).parameters, plain.parameters));
  }
}

// Pipelines. Each micro-batch rounds gradients to bfloat16, by 2^-9, in activations, cotangents and products.

std::vector<tw::pipeline::BlockFactory> pipeline_blocks(bool full) {
  std::vector<tw::pipeline::BlockFactory> blocks{tw::pipeline::block([] { return torch::nn::Flatten(); })};
  for (int64_t i = 0; i < 4; ++i) {
    if (full && i == 2) {
      blocks.push_back(tw::pipeline::block([] { return Full(); }));
    } else {
      blocks.push_back(tw::pipeline::block([i] { return torch::nn::Linear(i == 0 ? 784 : 32, i == 3 ? 10 : 32); }));
    }
    if (i < 3) blocks.push_back(tw::pipeline::block([] { return torch::nn::Tanh(); }));
  }
  return blocks;
}

Trained train_stages(tw::pipeline::Recompute recompute, ComputeType compute, int micro_batches = 3, bool full = false) {
  const int stages = world().size();
  const Mesh mesh(world(), {{"data"}, {"stage", stages}});
  const auto net = std::make_shared<tw::pipeline::Pipeline>(
      mesh["stage"], pipeline_blocks(full),
      tw::pipeline::PipelineOptions{.schedule = tw::pipeline::one_forward_one_backward(stages, micro_batches),
                                    .recompute = std::vector<tw::pipeline::Recompute>(static_cast<size_t>(stages), recompute)});
  {  // the initial values of the whole model
    const torch::NoGradGuard no_grad;
    const auto values = initial();
    const int64_t first = std::stoll(net->named_children().front().key());
    size_t next = 0;
    for (int64_t block = 0; block < first; ++block) next += block % 2 == 1 ? 2 : 0;
    for (const at::Tensor& each : net->parameters()) each.copy_(values.at(next++));
  }
  return train(mesh, model_of(net), options_for("stages", compute), [&] { return net->whole_on_root(); });
}

TEST(PrecisionOfParts, StagesTrainAsOneProcess) {
  for (const auto compute : {ComputeType::bfloat16, ComputeType::float16}) {
    const Trained expected = train_whole(options_for("whole", compute));
    const Trained stages = train_stages(tw::pipeline::Recompute::none, compute);
    EXPECT_EQ(stages.summary.overflowed_steps, 0);
    expect_within(12 * 0x1p-9 * distance(initial(), expected.parameters), stages, expected);
    for (const bool full : {false, true}) {
      expect_bits(train_stages(tw::pipeline::Recompute::none, compute, 1, full), train_whole(options_for("whole", compute), false, full));
    }
  }
}

TEST(PrecisionOfParts, StagesThatComputeAgainHaveTheBitsOfOthers) {
  const Trained expected = train_stages(tw::pipeline::Recompute::none, ComputeType::bfloat16);
  for (const auto recompute : {tw::pipeline::Recompute::full, tw::pipeline::Recompute::selective}) {
    const Trained again = train_stages(recompute, ComputeType::bfloat16);
    expect_bits(again, expected);
  }
}

// A stage of operators called by the interpreter; they are those of the module.
TEST(PrecisionOfParts, PlannedModelsHaveTheBitsOfOneProcess) {
  const Trained expected = train_whole(options_for("whole"));
  const int ranks = world().size();
  for (const auto recompute : {tw::pipeline::Recompute::none, tw::pipeline::Recompute::full}) {
    const Mesh mesh(world(), {{"data"}, {"stage", ranks}});
    Net net = make_net();
    const auto forward = [&](const std::vector<at::Tensor>& inputs) { return std::vector<at::Tensor>{net->forward(inputs.at(0))}; };
    auto planned = tw::pipeline::plan_together(mesh["stage"], *net, forward, {torch::rand({12, 1, 28, 28})}, {.devices = ranks, .micro_batches = 1});
    tw::pipeline::Plan plan{.hash = planned.result().profile.hash, .batch = 12, .micro_batches = 1};
    const auto units = static_cast<int>(planned.result().profile.operators.size());
    for (int stage = 0; stage < ranks; ++stage) {
      plan.stages.push_back({.recompute = recompute});
      for (int unit = units * stage / ranks; unit < units * (stage + 1) / ranks; ++unit) plan.stages.back().operators.push_back(unit);
    }
    planned.use(plan);
    const auto stages = std::make_shared<tw::pipeline::Pipeline>(mesh["stage"], *net, planned, 1);
    expect_bits(train(mesh, model_of(stages), options_for("planned"), [&] { return stages->whole_on_root(); }), expected);
  }
}

// Layers in parallel.

struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : linear(register_module("linear", torch::nn::Linear(16, 16))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

struct FlatImpl : torch::nn::Module {
  FlatImpl() : linear(register_module("linear", torch::nn::Linear(784, 16))) {}
  torch::Tensor forward(const torch::Tensor& x) { return linear(x.flatten(1)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Flat);

using namespace tw::layer_parallel;
using tw::layer_training::SpliNet;
using tw::layer_training::SpliNetOptions;

std::vector<Block> layer_blocks() {
  return {block([] { return Flat(); }, 1), block([] { return Residual(); }, 12), block([] { return torch::nn::Linear(16, 10); }, 1)};
}

// Enough iterations to be exact.
const LayerParallelOptions exact{.coarsening = 2, .min_coarse = 1, .forward = {.iterations = 6}, .backward = {.iterations = 6}};

Trained train_layers(LayerParallelOptions options, ComputeType compute, bool splines = false) {
  const Mesh mesh(world(), {{"data"}, {"layer", world().size()}});
  const auto net = std::make_shared<LayerParallel>(mesh["layer"], layer_blocks(), options);
  const std::shared_ptr<tw::TrainableModel> model =
      splines ? std::make_shared<SpliNet>(net, SpliNetOptions{.control_points = 4, .degree = 1}) : std::static_pointer_cast<tw::TrainableModel>(net);
  Trained trained = train(mesh, model_of(model), options_for("layers", compute), [&] {
    const auto serial = net->serial_on_root();
    return serial ? tw::model_tensors(*serial).all_tensors() : std::vector<tw::NamedTensor>();
  });
  EXPECT_EQ(net->unbatchable("1"), compute == ComputeType::float32 ? "" : "the layers run under autocast");
  return trained;
}

/// One layer after the other, with float32 states as in layers in parallel.
struct SerialImpl : torch::nn::Module {
  SerialImpl() : net(register_module("net", std::make_shared<SerialNetwork>(layer_blocks(), exact))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    State state = net->layers(0)[0].forward({x}, {}, 0);
    state[0] = state[0].to(torch::kFloat);
    for (const Layer& each : net->layers(1)) state = step(each, Integrator::euler, state, {}, exact.final_time / 12);
    return net->layers(2)[0].forward(state, {}, 0).at(0);
  }
  std::shared_ptr<SerialNetwork> net;
};
TORCH_MODULE(Serial);

TEST(PrecisionOfParts, LayersInParallelTrainAsOneProcess) {
  const tw::Communicator alone = world().split(world().rank(), 0);
  for (const auto compute : {ComputeType::bfloat16, ComputeType::float16}) {
    const Serial serial;
    const Trained expected = train(Mesh(alone, {{"data"}}), model_of(serial), options_for("serial", compute));
    const Trained full = train(Mesh(alone, {{"data"}}), model_of(Serial()), options_for("full", ComputeType::float32));
    const Trained layers = train_layers(exact, compute);
    // float32 states are summed in a different order. bfloat16 and float16 round the difference away, unless it lies midway between two numbers.
    expect_within(0.25 * distance(full.parameters, expected.parameters), layers, expected);
  }
}

// The backward pass linearises layers again for the adjoint, on either level.
TEST(PrecisionOfParts, LayersThatComputeAgainHaveTheBitsOfOthers) {
  LayerParallelOptions options = exact;
  const Trained expected = train_layers(options, ComputeType::bfloat16);
  options.recompute = true;
  const Trained again = train_layers(options, ComputeType::bfloat16);
  expect_bits(again, expected);
}

// Layers are float32 sums of control points, not products in bfloat16, so they differ by less than bfloat16 rounds.
TEST(PrecisionOfParts, SplinesAreNotRounded) {
  const Mesh mesh(world(), {{"data"}, {"layer", world().size()}});
  const auto net = std::make_shared<LayerParallel>(mesh["layer"], layer_blocks(), exact);
  const auto splines = std::make_shared<SpliNet>(net, SpliNetOptions{.control_points = 4, .degree = 1});
  std::vector<at::Tensor> before;
  for (const at::Tensor& each : net->parameters()) before.push_back(each.detach().clone());
  const Model model = tw::train::under_autocast(model_of(std::static_pointer_cast<tw::TrainableModel>(splines)), ComputeType::bfloat16);
  (void)model.forward(torch::rand({3, 1, 28, 28}));
  std::vector<at::Tensor> after;
  for (const at::Tensor& each : net->parameters()) after.push_back(each.detach().clone());
  EXPECT_TRUE(tw::testing::bitwise_equal(before, after));
  EXPECT_TRUE(std::isfinite(tw::train::figure(train_layers(exact, ComputeType::bfloat16, true).summary.test, "loss")));
}

struct HalfStepImpl : torch::nn::Module {
  HalfStepImpl() : linear(register_module("linear", torch::nn::Linear(16, 16))) {}
  torch::Tensor forward(const torch::Tensor& u, double /*dt*/) { return linear(u); }
  torch::nn::Linear linear;
};
TORCH_MODULE(HalfStep);

TEST(PrecisionOfParts, StatesThatBecomeHalfAreRefused) {
  const Mesh mesh(world(), {{"data"}, {"layer", world().size()}});
  for (const int iterations : {0, 2}) {
    LayerParallelOptions options = exact;
    options.forward.iterations = options.backward.iterations = iterations;
    const auto net = std::make_shared<LayerParallel>(
        mesh["layer"],
        std::vector<Block>{block([] { return Flat(); }, 1), block([] { return HalfStep(); }, 12), block([] { return torch::nn::Linear(16, 10); }, 1)},
        options);
    EXPECT_THROW((void)train(mesh, model_of(std::static_pointer_cast<tw::TrainableModel>(net)), options_for("half_states")), std::exception);
  }
}

TEST(PrecisionOfParts, RecurrentLayersInParallelRefuseAutocast) {
  const Mesh mesh(world(), {{"data"}, {"layer", world().size()}});
  const auto net = std::make_shared<SequenceModel>(mesh["layer"], RecurrentOptions{.input_size = 28, .hidden_size = 8}, std::vector<int64_t>{10});
  try {
    (void)train(mesh, model_of(std::static_pointer_cast<tw::TrainableModel>(net)), options_for("recurrent"));
    ADD_FAILURE() << "it was trained";
  } catch (const tw::ContractError& error) {
    EXPECT_NE(std::string(error.what()).find("recurrent layers in parallel over time do not support autocast"), std::string::npos) << error.what();
  }
}

}  // namespace precision_parts_test
