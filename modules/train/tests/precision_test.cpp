// SPDX-License-Identifier: Apache-2.0
// Training in half precision equals a hand-written loop under LibTorch's autocast, with every strategy. Also covers scaled losses and overflows.
#include "support.hpp"

#include <ATen/autocast_mode.h>
#include <torch/script.h>

#include <cmath>
#include <limits>
#include <tw/autograd/autocast.hpp>
#include <tw/base/contract.hpp>
#include <tw/models/lenet.hpp>

namespace precision_test {

using tw::ComputeType;
using tw::testing::along_shard;
using tw::testing::bitwise_equal;
using tw::testing::copies;
using tw::testing::quick;
using tw::testing::Way;
using tw::testing::world;
using tw::train::CompressionKind;
using tw::train::Meeting;
using tw::train::Model;
using tw::train::Options;
using tw::train::PrecisionOptions;
using tw::train::ReplicaOptions;
using tw::train::Resume;
using tw::train::Sharded;
using tw::train::Trainer;

const std::vector<Way> ways{{.name = "every_step"},
                            {.name = "optimizer", .axes = along_shard, .shard = {.what = Sharded::optimizer}},
                            {.name = "gradients", .axes = along_shard, .shard = {.what = Sharded::gradients}},
                            {.name = "parameters", .axes = along_shard, .shard = {.unit_bytes = 4000, .prefetch_units = 1}},
                            {.name = "one_copy_in_slices", .axes = along_shard, .shard = {.one_copy_per_node = true}},
                            {.name = "local_sgd", .replicas = {.meet = Meeting::local_sgd, .period = 2}},
                            {.name = "diloco", .replicas = {.meet = Meeting::diloco, .period = 2}},
                            {.name = "easgd", .replicas = {.meet = Meeting::parameter_server, .period = 2}}};

Model make_mlp() {
  torch::manual_seed(3);
  return tw::train::model_of(tw::models::Mlp(std::vector<int64_t>{784, 32, 10}));
}

Model make_lenet() {
  torch::manual_seed(3);
  return tw::train::model_of(tw::models::LeNet());
}

/// One layer is excluded from autocast, including its backward pass.
struct PartlyFullImpl : torch::nn::Module {
  PartlyFullImpl() : first(register_module("first", torch::nn::Linear(784, 32))), full(register_module("full", torch::nn::Linear(32, 32))) {
    last = register_module("last", torch::nn::Linear(32, 10));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor h = first(x.flatten(1));
    {
      const tw::AutocastScope plain(tw::AutocastState::here().off());
      h = torch::tanh(full(h.to(torch::kFloat)));
    }
    return last(h);
  }
  torch::nn::Linear first, full, last{nullptr};
};
TORCH_MODULE(PartlyFull);

Model make_partly_full() {
  torch::manual_seed(3);
  return tw::train::model_of(PartlyFull());
}

/// Products, additions and an activation, as TorchScript.
Model make_script() {
  torch::manual_seed(3);
  torch::jit::Module script("net");
  const auto add = [&](const char* name, const at::Tensor& values) {
    script.register_parameter(name, values.detach().set_requires_grad(true), /*is_buffer=*/false);
  };
  const torch::nn::Linear first(784, 32);
  const torch::nn::Linear second(32, 10);
  add("w0", first->weight);
  add("b0", first->bias);
  add("w1", second->weight);
  add("b1", second->bias);
  script.define(R"(
def forward(self, x):
    h = torch.tanh(torch.linear(x.flatten(1), self.w0, self.b0))
    return torch.linear(h * h.sigmoid() + h, self.w1, self.b1)
)");
  const auto path = std::filesystem::path(::testing::TempDir()) / tw::concat("tw_precision_", world().rank(), ".pt");
  script.save(path.string());
  return tw::train::load_torchscript(path);
}

/// The same as a module.
struct UnscriptedImpl : torch::nn::Module {
  UnscriptedImpl() : first(register_module("first", torch::nn::Linear(784, 32))), second(register_module("second", torch::nn::Linear(32, 10))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor h = torch::tanh(first(x.flatten(1)));
    return second(h * h.sigmoid() + h);
  }
  torch::nn::Linear first, second;
};
TORCH_MODULE(Unscripted);

/// Records the parameters after each update, and the batches.
struct Witness : tw::train::Hook {
  void on_sample(tw::train::State& state) override { batches.push_back(state.batch); }
  void on_update(tw::train::State& state) override { after.push_back(copies(state.model)); }
  std::vector<tw::Batch> batches;
  std::vector<std::vector<at::Tensor>> after;
};

Options options_for(const std::string& name, const PrecisionOptions& precision, const Way& way = {}) {
  Options options = quick("precision_" + name);
  options.epochs = 2;
  options.global_batch = 12;
  options.shard = way.shard;
  options.replicas = way.replicas;
  options.precision = precision;
  return options;
}

struct Trained {
  std::vector<at::Tensor> parameters;
  tw::train::Summary summary;
  std::vector<tw::Batch> batches;
  std::vector<std::vector<at::Tensor>> after;  // after each update
  std::optional<at::Tensor> scaling;           // scale, good updates, overflows
};

/// Makes 8 updates. @param spoils hook, called on every rank in each update
Trained train(const tw::Communicator& comm, const Model& model, const Options& options, tw::train::Hook* spoils = nullptr,
              const std::vector<tw::MeshAxis>& axes = {{"data"}}) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05));
  const auto data = tw::testing::rows(48);
  Trainer trainer(tw::Mesh(comm, axes), model, sgd, tw::train::classification(), data, data, options, &data);
  Witness witness;
  trainer.add(witness);
  if (spoils != nullptr) trainer.add(*spoils);
  Trained trained;
  trained.summary = trainer.run();
  trained.parameters = copies(model);
  trained.batches = witness.batches;
  trained.after = witness.after;
  for (const tw::NamedShard& shard : trainer.shards()) {
    if (shard.name == "trainer/loss_scaling") trained.scaling = shard.tensor.clone();
  }
  return trained;
}

tw::Communicator alone() { return world().split(world().rank(), 0); }

/// The loop that users of LibTorch write.
std::vector<at::Tensor> by_hand(const Model& model, const std::vector<tw::Batch>& batches, at::ScalarType type, double scale) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05));
  at::autocast::set_autocast_dtype(at::kCPU, type);
  for (const tw::Batch& batch : batches) {
    sgd.zero_grad();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor outputs = model.forward(batch.inputs);
    EXPECT_EQ(outputs.scalar_type(), type);
    const at::Tensor loss = torch::cross_entropy_loss(outputs, batch.targets);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
    (loss * scale).backward();
    for (const at::Tensor& each : model.tensors()) each.mutable_grad().div_(scale);
    sgd.step();
  }
  return copies(model);
}

// On one rank, bitwise: strategies that average a single model change nothing. Parameter casts kept for the next update would show.
TW_TEST_ON(Precision, IsAHandWrittenLoopUnderAutocast, {.most = 1}) {
  for (const auto make : {make_mlp, make_lenet, make_partly_full}) {
    for (const auto compute : {ComputeType::bfloat16, ComputeType::float16}) {
      const bool half = compute == ComputeType::float16;
      for (const Way& way : ways) {
        const std::string& name = way.name;
        if (name == "diloco" || name == "easgd") continue;  // have their own update rules
        const auto options = options_for("by_hand", {.compute = compute, .loss_scale = {.scale = 1024}}, way);
        const Trained trained = train(world(), make(), options, nullptr, way.axes);
        const auto expected = by_hand(make(), trained.batches, half ? at::kHalf : at::kBFloat16, half ? 1024 : 1);
        EXPECT_TRUE(bitwise_equal(trained.parameters, expected)) << name << (half ? ", float16" : ", bfloat16");
      }
    }
  }
}

// From the first call, in which LibTorch profiles a script, to the third, from which on it runs its optimised version.
TW_TEST_ON(Precision, TakesScriptsAsModules, {.most = 1}) {
  for (const auto compute : {ComputeType::bfloat16, ComputeType::float16}) {
    const auto options = options_for("script", {.compute = compute, .loss_scale = {.scale = 1024}});
    torch::manual_seed(3);
    const Trained module = train(alone(), tw::train::model_of(Unscripted()), options);
    const Model written = make_script();
    if (compute == ComputeType::float16) {  // after LibTorch has optimised it for float32
      for (int i = 0; i < 4; ++i) written.forward(torch::rand({12, 1, 28, 28})).sum().backward();
    }
    const Trained script = train(alone(), written, options);
    EXPECT_TRUE(bitwise_equal(script.parameters, module.parameters));
    EXPECT_EQ(script.summary.test, module.summary.test);
  }
}

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]).square().sum(at::kDouble).item<double>();
  return std::sqrt(sum);
}

// Each rank rounds its samples' contribution to a gradient, and contributions are summed in float32. However it is rounded, the result is about as
// far from the float32 result, so two results are at most twice as far apart.
TEST(Precision, OfSeveralRanksIsThatOfOne) {
  const PrecisionOptions precision{.compute = ComputeType::bfloat16};
  const Trained expected = train(alone(), make_mlp(), options_for("one", precision));
  const double rounding = distance(train(alone(), make_mlp(), options_for("full", {})).parameters, expected.parameters);
  EXPECT_GT(rounding, 0);
  EXPECT_LT(rounding, 0.05 * distance(copies(make_mlp()), expected.parameters));
  for (const Way& way : ways) {
    const std::string& name = way.name;
    if (name == "diloco" || name == "easgd" || name == "local_sgd") continue;
    const Trained trained = train(world(), make_mlp(), options_for("several", precision, way), nullptr, way.axes);
    EXPECT_LE(distance(trained.parameters, expected.parameters), 2 * rounding) << name;
  }
}

// A power of two changes no mantissa of bfloat16 or float32, and both have enough exponent bits.
TEST(Precision, ScaledLossesChangeNoBit) {
  for (const Way& way : ways) {
    const std::string& name = way.name;
    const Trained plain = train(world(), make_mlp(), options_for("plain", {.compute = ComputeType::bfloat16}, way), nullptr, way.axes);
    const PrecisionOptions scaled{.compute = ComputeType::bfloat16, .scale_loss = true, .loss_scale = {.scale = 4096, .growth_interval = 3}};
    const Trained same = train(world(), make_mlp(), options_for("scaled", scaled, way), nullptr, way.axes);
    const bool as_it_comes = name == "easgd";  // its ranks do not wait for each other
    EXPECT_TRUE(as_it_comes || bitwise_equal(plain.parameters, same.parameters)) << name;
    ASSERT_TRUE(same.scaling) << name;
    EXPECT_TRUE(same.scaling->equal(torch::tensor({4 * 4096.0, 2.0, 0.0}, torch::kDouble))) << name << ": " << *same.scaling;  // 8 updates
    EXPECT_EQ(same.summary.overflowed_steps, 0);
    EXPECT_FALSE(plain.scaling);
  }
}

/// Replaces the loss on one rank in one step.
struct Spoiler : tw::train::Hook {
  explicit Spoiler(std::function<at::Tensor(const tw::train::State&)> to, int64_t in_step = 2) : with(std::move(to)), step(in_step) {}
  void on_forward(tw::train::State& state) override {
    if (state.comm.rank() == state.comm.size() - 1 && (state.step == step || step < 0)) state.loss = with(state);
  }
  std::function<at::Tensor(const tw::train::State&)> with;
  int64_t step;
};

TEST(Precision, LeavesAnUpdateOutOnAllRanksWhereGradientsOfOneOverflow) {
  for (const Way& way : ways) {
    const std::string& name = way.name;
    Spoiler spoiler([](const tw::train::State& state) { return state.loss * 0x1p60; });
    const Trained trained = train(world(), make_mlp(), options_for("overflow", {.compute = ComputeType::float16, .loss_scale = {.scale = 1024}}, way),
                                  &spoiler, way.axes);
    EXPECT_EQ(trained.summary.overflowed_steps, 1) << name;
    EXPECT_EQ(trained.summary.skipped_steps, 0) << name;
    EXPECT_EQ(trained.summary.stopped_because, "") << name;
    EXPECT_EQ(trained.summary.steps, 8) << name;
    for (const at::Tensor& each : trained.parameters) EXPECT_TRUE(torch::isfinite(each).all().item<bool>()) << name;
    const bool steps_alone = name == "local_sgd" || name == "diloco" || name == "easgd";  // no meeting in step 3
    const bool left_out_here = !steps_alone || world().rank() == world().size() - 1;
    EXPECT_EQ(bitwise_equal(trained.after[2], trained.after[1]), left_out_here) << name;
    EXPECT_FALSE(bitwise_equal(trained.after[3], trained.after[2])) << name;
    const auto expected = left_out_here ? torch::tensor({512.0, 5.0, 1.0}, torch::kDouble) : torch::tensor({1024.0, 8.0, 0.0}, torch::kDouble);
    EXPECT_TRUE(trained.scaling->equal(expected)) << name << ": " << *trained.scaling;
  }
}

// An initial scale that is too large is reduced until it fits.
TEST(Precision, FindsAScaleThatFits) {
  const PrecisionOptions precision{.compute = ComputeType::float16, .loss_scale = {.scale = 0x1p40, .backoff = 0x1p-8}};
  const Trained trained = train(world(), make_mlp(), options_for("too_large", precision));
  EXPECT_GT(trained.summary.overflowed_steps, 1);
  EXPECT_LT(trained.summary.overflowed_steps, 8);
  EXPECT_FALSE(bitwise_equal(trained.parameters, copies(make_mlp())));
}

// A non-finite loss is no overflow, nor are non-finite gradients at a scale of 1.
TEST(Precision, IsStillTroubledByWhatIsNoOverflow) {
  for (const Way& way : ways) {
    const std::string& name = way.name;
    struct Spoils : tw::train::Hook {
      void on_sample(tw::train::State& state) override {
        if (state.step == 2 && state.comm.rank() == 0) state.batch.inputs.fill_(std::numeric_limits<double>::quiet_NaN());
      }
    } nan;
    const Trained trained =
        train(world(), make_mlp(), options_for("nan", {.compute = ComputeType::float16, .loss_scale = {.scale = 1024}}, way), &nan, way.axes);
    EXPECT_TRUE(trained.summary.diverged) << name;
    EXPECT_EQ(trained.summary.overflowed_steps, 0) << name;
    EXPECT_NE(trained.summary.stopped_because.find("rank 0: the loss is nan"), std::string::npos) << trained.summary.stopped_because;
  }
  Spoiler no_slope([](const tw::train::State& state) { return state.loss + (state.outputs.to(torch::kFloat) * 0).sum().sqrt(); }, -1);
  const PrecisionOptions precision{.compute = ComputeType::float16, .loss_scale = {.scale = 4}};
  const Trained trained = train(world(), make_mlp(), options_for("no_slope", precision), &no_slope);
  EXPECT_TRUE(trained.summary.diverged);
  EXPECT_EQ(trained.summary.overflowed_steps, 2);  // at scales 4 and 2
  EXPECT_EQ(trained.summary.steps, 3);
}

/// Ends a run early.
struct Stopper : tw::train::Hook {
  explicit Stopper(int64_t after) : step(after) {}
  void on_update(tw::train::State& state) override {
    if (state.step == step) state.stop("the test says so");
  }
  int64_t step;
};

TEST(Precision, ResumedRunsHaveTheSameBits) {
  const PrecisionOptions precision{.compute = ComputeType::float16, .loss_scale = {.scale = 0x1p30, .backoff = 0x1p-8, .growth_interval = 2}};
  for (const Way& way : ways) {
    const std::string& name = way.name;
    if (way.replicas.meet == Meeting::parameter_server) continue;  // ranks do not wait for each other, so no other run is equal
    Options options = options_for("whole", precision, way);
    const Trained whole = train(world(), make_mlp(), options, nullptr, way.axes);
    EXPECT_GT(whole.summary.overflowed_steps, 0) << name;
    for (const int64_t stop_at : {1, 4}) {
      options = options_for("resumed", precision, way);
      options.checkpoint.every_epochs = 1;
      options.resume = Resume::fresh;
      Stopper stopper(stop_at);
      EXPECT_FALSE(train(world(), make_mlp(), options, &stopper, way.axes).summary.finished) << name;
      options.resume = Resume::resume;
      const Trained resumed = train(world(), make_mlp(), options, nullptr, way.axes);
      EXPECT_TRUE(resumed.summary.finished) << name;
      EXPECT_TRUE(bitwise_equal(resumed.parameters, whole.parameters)) << name << " stopped at " << stop_at;
      EXPECT_TRUE(resumed.scaling->equal(*whole.scaling)) << name << ": " << *resumed.scaling << *whole.scaling;
      EXPECT_EQ(resumed.summary.overflowed_steps, whole.summary.overflowed_steps) << name;
      EXPECT_EQ(resumed.summary.test, whole.summary.test) << name;
    }
  }
}

// The images can be learnt completely; an 8-bit mantissa is enough for that.
TEST(Precision, LearnsAsInFloat32) {
  const auto loss_of = [](ComputeType compute) {
    Options options = options_for("learns", {.compute = compute});
    options.epochs = 15;
    return train(world(), make_mlp(), options).summary.test;
  };
  const double full = tw::train::figure(loss_of(ComputeType::float32), "loss");
  EXPECT_LT(full, 1);
  for (const auto compute : {ComputeType::bfloat16, ComputeType::float16}) {
    const auto test = loss_of(compute);
    EXPECT_NEAR(tw::train::figure(test, "loss"), full, 0.05 * full);
    EXPECT_EQ(tw::train::figure(test, "accuracy"), 1);
  }
}

std::string refusal_of(const Model& model, const Options& options) {
  try {
    (void)train(world(), model, options);
  } catch (const tw::Error& error) {
    return error.what();
  } catch (const tw::ContractError& error) {
    return error.what();
  }
  return "";
}

TEST(Precision, RefusesWhatAutocastWouldPassOver) {
  const Model doubles = tw::testing::make_regressor(0, false);
  EXPECT_NE(refusal_of(doubles, options_for("double", {.compute = ComputeType::bfloat16})).find("0.weight is float64"), std::string::npos);
  for (const auto compression : {CompressionKind::top_k, CompressionKind::power_sgd}) {
    const Options options = options_for("compressed", {.compute = ComputeType::float16}, {.replicas = {.compression = compression}});
    EXPECT_NE(refusal_of(make_mlp(), options).find("replicas.compression"), std::string::npos);
  }
  EXPECT_EQ(refusal_of(make_mlp(), options_for("fits", {.compute = ComputeType::bfloat16}, {.replicas = {.compression = CompressionKind::top_k}})),
            "");
  EXPECT_EQ(refusal_of(make_mlp(), options_for("fits", {.compute = ComputeType::float16}, {.replicas = {.compression = CompressionKind::bfloat16}})),
            "");
  EXPECT_NE(refusal_of(make_mlp(), options_for("scaled", {.scale_loss = true})).find("precision.scale_loss"), std::string::npos);
}

}  // namespace precision_test
