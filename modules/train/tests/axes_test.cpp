// SPDX-License-Identifier: Apache-2.0
// Models along other axes, and along several: the trainer's numbers equal those of one process. The trainer's sources do not mention these axes.
#include "longer.hpp"
#include "message_of.hpp"
#include "regression_run.hpp"

#include <tw/comm/collectives.hpp>
#include <tw/comm/replicas.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/tensor/safetensors.hpp>
#include <tw/tensor_parallel/linear.hpp>
#include <tw/tensor_parallel/split_model.hpp>

namespace axes_test {

using tw::Mesh;
using tw::testing::squares;
using tw::testing::three_epochs;
using tw::testing::world;
using tw::train::Model;
using tw::train::model_of;
using tw::train::Options;
using tw::train::Trainer;
using namespace tw::tensor_parallel;

// For 18 updates in float64 with sums in a different order.
constexpr double tolerance = 1e-10;

struct Ran {
  tw::train::Summary summary;
  Options options;
};

Ran train(const Mesh& mesh, const Model& model, Options options, const tw::train::Objective& objective = tw::train::regression()) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(mesh, model, sgd, objective, data, data, options, &data);
  return {trainer.run(), options};
}

/// A part of a run: interrupted after `updates` if it begins, else to its end.
tw::train::Summary train_a_part(const Mesh& mesh, const Model& model, const Options& options, int64_t updates) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto data = squares(31);
  Trainer trainer(mesh, model, sgd, tw::train::regression(), data, data, options, &data);
  const bool resumes = options.resume == tw::train::Resume::resume;
  tw::testing::Witness witness(resumes ? tw::testing::never : updates);
  trainer.add(witness);
  tw::train::Summary summary = trainer.run();
  EXPECT_EQ(summary.finished, resumes);
  return summary;
}

void expect_equal(const tw::train::Summary& ours, const tw::train::Summary& expected, const std::string& what) {
  EXPECT_EQ(ours.steps, expected.steps) << what;
  EXPECT_EQ(ours.parameters, expected.parameters) << what;
  ASSERT_EQ(ours.test.size(), expected.test.size());
  for (size_t i = 0; i < expected.test.size(); ++i) {
    EXPECT_NEAR(ours.test[i].second, expected.test[i].second, tolerance * expected.test[i].second) << what << ": " << expected.test[i].first;
  }
}

Mesh alone() { return {world().split(world().rank(), 0), {{"data"}}}; }

/// A linear regression with distributed inputs: rank r of P multiplies inputs n r / P to n (r + 1) / P. Its gradient is written by hand, as in a
/// user's model without autograd.
class SharedInputs : public tw::TrainableModel {
 public:
  SharedInputs(const tw::Communicator& comm, int64_t inputs)
      : comm_(comm), begin_(inputs * comm.rank() / comm.size()), inputs_(inputs), observed_(inputs * (comm.rank() + 1) / comm.size() - begin_) {
    weight_ = torch::linspace(0.1, 0.4, inputs, torch::kDouble).narrow(0, begin_, observed_).clone().set_requires_grad(true);
  }

  std::vector<std::string> axes() const override { return {"inputs"}; }
  tw::ModelTensors tensors() const override { return {.parameters = {{"weight", weight_}}}; }
  std::vector<tw::NamedShard> shards() const override {
    return {{"weight", {}, {inputs_}, weight_.detach(), {begin_}, tw::ShardKind::parameter, tw::OnReshard::shard}};
  }
  std::vector<tw::OptimizedTensor> optimized_tensors() const override { return {{weight_, shards()}}; }
  at::Tensor forward(const at::Tensor& inputs) override {
    const torch::NoGradGuard no_gradients;
    const at::Tensor sum = part_of(inputs).matmul(weight_);
    tw::allreduce(comm_, sum, tw::ReduceOp::sum);
    return sum.unsqueeze(1);
  }
  void pass(const tw::TrainingPass& pass) override {
    const at::Tensor outputs = forward(pass.inputs);
    at::Tensor loss = pass.loss(outputs, pass.targets);
    const at::Tensor gradient = part_of(pass.inputs).t().matmul((outputs - pass.targets).squeeze(1)) * (2 * pass.weight / pass.inputs.size(0));
    weight_.mutable_grad() = weight_.grad().defined() ? weight_.grad() + gradient : gradient;
    pass.on_loss(outputs, loss);
  }
  bool makes_one_backward_pass() const override { return false; }

 private:
  at::Tensor part_of(const at::Tensor& inputs) const { return inputs.narrow(1, begin_, observed_); }

  const tw::Communicator& comm_;
  int64_t begin_;
  int64_t inputs_;
  int64_t observed_;
  at::Tensor weight_;
};

TEST(Axes, AUsersOwnModelIsTrainedAsOneOfOurs) {
  const Mesh one(world().split(world().rank(), 0), {{"data"}, {"inputs", 1}});
  const auto expected = train(one, model_of(std::make_shared<SharedInputs>(one["inputs"], 4)), three_epochs("own_alone")).summary;
  EXPECT_EQ(expected.parameters, 4);
  EXPECT_LT(expected.test[0].second, 0.2) << "it learns";
  for (const int ranks : {1, 2, 3, 4}) {
    if (world().size() % ranks != 0) continue;
    const Mesh mesh(world(), {{"data"}, {"inputs", ranks}});
    Options options = three_epochs("own");
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    const auto model = std::make_shared<SharedInputs>(mesh["inputs"], 4);
    expect_equal(train(mesh, model_of(model), options).summary, expected, tw::concat(ranks, " ranks"));
    if (world().rank() != 0) continue;
    EXPECT_EQ(tw::SafetensorsFile(options.folder() / "best.safetensors").tensor("weight").numel(), 4);
  }
}

/// The same network, whole and split. Layers are made in order, since they draw from one generator.
torch::nn::Sequential whole_net() {
  torch::manual_seed(6);
  torch::nn::Sequential net;
  net->push_back(torch::nn::Linear(4, 8));
  net->push_back(torch::nn::Tanh());
  net->push_back(torch::nn::Linear(8, 6));
  net->push_back(torch::nn::Tanh());
  net->push_back(torch::nn::Linear(6, 1));
  net->to(torch::kDouble);
  return net;
}
torch::nn::Sequential split_net(const tw::Communicator& axis) {
  torch::manual_seed(6);
  torch::nn::Sequential net;
  net->push_back(ColumnParallelLinear(axis, 4, 8));
  net->push_back(torch::nn::Tanh());
  net->push_back(RowParallelLinear(axis, 8, 6));
  net->push_back(torch::nn::Tanh());
  net->push_back(torch::nn::Linear(6, 1));
  net->to(torch::kDouble);
  return net;
}

/// The same, also split along `stage`.
std::shared_ptr<tw::pipeline::Pipeline> split_pipeline(const Mesh& mesh) {
  using namespace tw::pipeline;
  const tw::Communicator& axis = mesh["tensor"];
  const std::vector<BlockFactory> blocks{block([&] { return ColumnParallelLinear(axis, 4, 8); }), block([] { return torch::nn::Tanh(); }),
                                         block([&] { return RowParallelLinear(axis, 8, 6); }), block([] { return torch::nn::Tanh(); }),
                                         block([] { return torch::nn::Linear(6, 1); })};
  torch::manual_seed(6);
  auto net = std::make_shared<Pipeline>(mesh["stage"], blocks, PipelineOptions{.schedule = one_forward_one_backward(mesh["stage"].size(), 2)});
  net->to(torch::kDouble);
  return net;
}

TEST(Axes, DataTimesTensorIsOneProcess) {
  const auto expected = train(alone(), model_of(whole_net()), three_epochs("tensor_alone")).summary;
  for (const int ranks : {1, 2, 4}) {
    if (world().size() % ranks != 0) continue;
    const Mesh mesh(world(), {{"data"}, {"tensor", ranks}});
    Options options = three_epochs("tensor");
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    const auto net = split_net(mesh["tensor"]);
    expect_equal(train(mesh, model_of(split_model(net)), options).summary, expected, tw::concat(ranks, " ranks"));
    if (world().rank() != 0) continue;
    const tw::SafetensorsFile best(options.folder() / "best.safetensors");
    EXPECT_EQ(best.names().size(), 6U);
    EXPECT_EQ(best.tensor("0.weight").sizes(), (std::vector<int64_t>{8, 4})) << "put together from slices";
    EXPECT_EQ(best.tensor("2.weight").sizes(), (std::vector<int64_t>{6, 8}));
  }
}

Options clipped(const std::string& name) {
  Options options = three_epochs(name);
  options.clip.norm = 0.05;
  return options;
}

TEST(Axes, ClipByOneNorm) {
  const auto expected = train(alone(), model_of(whole_net()), clipped("clipped_alone")).summary;
  EXPECT_NE(expected.test[0].second, train(alone(), model_of(whole_net()), three_epochs("tensor_alone")).summary.test[0].second);
  for (const int stages : {1, 2}) {
    for (const int split : {1, 2}) {
      if (world().size() % (stages * split) != 0) continue;
      const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
      const auto net = split_pipeline(mesh);
      expect_equal(train(mesh, model_of(split_model(net)), clipped("clipped")).summary, expected, mesh.shape().describe());
    }
  }
}

// Some samples do not count, so that parts of an update have other weights than rows, and some none.
TEST(Axes, WeighALossByWhatCounts) {
  const auto counts = [](const at::Tensor& t) { return t.gt(1.3).to(torch::kDouble); };
  const tw::train::Objective objective{
      .loss = [counts](const at::Tensor& y, const at::Tensor& t) { return ((y - t).square() * counts(t)).sum() / counts(t).sum(); },
      .weight = [counts](const at::Tensor& t) { return counts(t).sum().item<double>(); }};
  const auto expected = train(alone(), model_of(whole_net()), clipped("weighed_alone"), objective).summary;
  for (const int shards : {1, 2}) {
    for (const int stages : {1, 2}) {
      for (const int split : {1, 2}) {
        if (world().size() % (shards * stages * split) != 0) continue;
        const Mesh mesh(world(), {{"data"}, {"shard", shards}, {"tensor", split}, {"stage", stages}});
        expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), clipped("weighed"), objective).summary, expected,
                     mesh.shape().describe());
      }
    }
  }
}

// Each rank keeps its share of its stage, or of its slices; also a checkpoint of it, on another mesh.
TEST(Axes, ShardsOfPartsAreOneProcess) {
  const auto sharded = [](const std::string& name, int64_t accumulation) {
    Options options = clipped(name);
    options.shard.unit_bytes = 200;
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    options.accumulation = accumulation;
    return options;
  };
  for (const int64_t accumulation : {1, 2}) {
    Options alone_options = clipped("shards_alone");
    alone_options.accumulation = accumulation;
    const auto expected = train(alone(), model_of(whole_net()), alone_options).summary;
    for (const auto& [replicas, stages, split] :
         {std::tuple(1, 2, 1), std::tuple(1, 1, 2), std::tuple(1, 2, 2), std::tuple(2, 2, 1), std::tuple(2, 1, 2)}) {
      if (world().size() % (replicas * stages * split) != 0) continue;
      const Mesh mesh(world(), {{"data", replicas}, {"shard"}, {"tensor", split}, {"stage", stages}});
      const auto ran = train(mesh, model_of(split_model(split_pipeline(mesh))), sharded("shards", accumulation));
      expect_equal(ran.summary, expected, mesh.shape().describe());
      if (world().rank() == 0) {
        const tw::SafetensorsFile best(ran.options.folder() / "best.safetensors");
        EXPECT_EQ(best.names().size(), 6U) << mesh.shape().describe();
        EXPECT_EQ(best.tensor("2.weight").sizes(), (std::vector<int64_t>{6, 8})) << mesh.shape().describe();
      }
    }
  }
  if (world().size() % 2 != 0) return;
  const auto expected = train(alone(), model_of(whole_net()), clipped("shards_alone")).summary;
  Options options = sharded("shards_again", 1);
  for (const int stages : {2, 1}) {
    const Mesh mesh(world(), {{"shard"}, {"tensor", 1}, {"stage", stages}});
    const auto summary = train_a_part(mesh, model_of(split_model(split_pipeline(mesh))), options, 8);
    if (summary.finished) expect_equal(summary, expected, "resumed");
    options.resume = tw::train::Resume::resume;
  }
}

// The same, where ranks divide the optimizer's state and perhaps gradients, but not the parameters.
TEST(Axes, ShardedOptimizersOfPartsAreOneProcess) {
  using tw::train::Sharded;
  const auto expected = train(alone(), model_of(whole_net()), clipped("updates_alone")).summary;
  const auto options_of = [](Sharded what) {
    Options options = clipped("updates");
    options.shard.what = what;
    options.checkpoint.every_epochs = 1;
    options.resume = tw::train::Resume::fresh;
    return options;
  };
  for (const auto& [what, replicas, stages, split] :
       {std::tuple(Sharded::optimizer, 1, 1, 1), std::tuple(Sharded::optimizer, 1, 2, 1), std::tuple(Sharded::gradients, 1, 1, 2),
        std::tuple(Sharded::gradients, 2, 2, 1), std::tuple(Sharded::optimizer, 2, 1, 2)}) {
    if (world().size() % (replicas * stages * split) != 0) continue;
    const Mesh mesh(world(), {{"data", replicas}, {"shard"}, {"tensor", split}, {"stage", stages}});
    expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), options_of(what)).summary, expected, mesh.shape().describe());
  }
  if (world().size() % 2 != 0) return;
  Options options = options_of(Sharded::optimizer);  // begun in stages, and ended in slices
  for (const auto& [stages, split] : {std::pair(2, 1), std::pair(1, 2)}) {
    const Mesh mesh(world(), {{"shard"}, {"tensor", split}, {"stage", stages}});
    const auto summary = train_a_part(mesh, model_of(split_model(split_pipeline(mesh))), options, 8);
    if (summary.finished) expect_equal(summary, expected, "resumed");
    options.resume = tw::train::Resume::resume;
  }
}

/// Of a run that keeps its checkpoints, all but the oldest are removed.
void leave_the_first_checkpoint(const Options& options) {
  world().barrier();
  if (world().rank() == 0) {
    std::vector<std::filesystem::path> steps;
    for (const auto& each : std::filesystem::directory_iterator(options.folder() / "checkpoints")) steps.push_back(each.path());
    std::ranges::sort(steps);
    for (size_t i = 1; i < steps.size(); ++i) std::filesystem::remove_all(steps[i]);
  }
  world().barrier();
}

// One replica, so that nothing depends on who comes first; also from a checkpoint in the middle of a period, on another mesh.
TEST(Axes, ServersOfPartsAreThoseOfOneProcess) {
  using tw::train::ServerAlgorithm;
  for (const auto& [algorithm, stages, split] :
       {std::tuple(ServerAlgorithm::downpour, 1, 1), std::tuple(ServerAlgorithm::downpour, 2, 1), std::tuple(ServerAlgorithm::easgd, 1, 2),
        std::tuple(ServerAlgorithm::easgd, 2, 2), std::tuple(ServerAlgorithm::ssp, 2, 1)}) {
    if (world().size() % (stages * split) != 0) continue;
    Options options = clipped("servers_alone");
    options.replicas = {.meet = tw::train::Meeting::parameter_server, .period = 4, .algorithm = algorithm, .staleness = 1};
    options.shard.unit_bytes = 200;
    const auto expected = train(alone(), model_of(whole_net()), options).summary;
    options.name = three_epochs("servers").name;
    options.checkpoint.every_steps = 5;
    options.checkpoint.keep = 9;
    options.resume = tw::train::Resume::fresh;
    const Mesh mesh(world(), {{"data", 1}, {"shard"}, {"tensor", split}, {"stage", stages}});
    const std::string what = tw::concat(static_cast<int>(algorithm), " on ", mesh.shape().describe());
    expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), options).summary, expected, what);
    leave_the_first_checkpoint(options);
    // Of four parts one exchanges nothing, so that another mesh would begin a new period.
    const bool stays = world().size() % 2 != 0 || stages * split == 4;
    const Mesh other(world(), {{"data", 1}, {"shard"}, {"tensor", stays ? split : 2}, {"stage", stays ? stages : 1}});
    options.resume = tw::train::Resume::resume;
    expect_equal(train(other, model_of(split_model(split_pipeline(other))), options).summary, expected,
                 what + ", resumed on " + other.shape().describe());
  }
}

// Two replicas, whose exchanges depend on who comes first.
TW_TEST_ON(Axes, ServersOfReplicasInPartsTrainAndResume, {.least = 4}) {
  for (const auto& [shards, stages] : {std::pair(2, 1), std::pair(1, 2)}) {
    const Mesh mesh(world(), {{"data", 2}, {"shard", shards}, {"tensor", 1}, {"stage", stages}});
    Options options = three_epochs("servers_of_replicas");
    options.replicas = {.meet = tw::train::Meeting::parameter_server, .period = 4};
    options.shard.unit_bytes = 200;
    options.checkpoint.every_steps = 5;
    options.checkpoint.keep = 9;
    options.resume = tw::train::Resume::fresh;
    const auto whole = train(mesh, model_of(split_model(split_pipeline(mesh))), options).summary;
    leave_the_first_checkpoint(options);
    options.resume = tw::train::Resume::resume;
    const auto net = split_pipeline(mesh);
    const auto resumed = train(mesh, model_of(split_model(net)), options).summary;
    EXPECT_EQ(resumed.steps, whole.steps) << mesh.shape().describe();
    EXPECT_NEAR(resumed.test[0].second, whole.test[0].second, 0.2 * whole.test[0].second) << mesh.shape().describe();
    if (shards > 1) continue;  // parameters have no memory after the run
    for (const at::Tensor& each : net->parameters()) EXPECT_TRUE(tw::compare_replicas(mesh["data"], each).identical) << mesh.shape().describe();
  }
}

// Replicas that meet every four steps: each held together by some ranks, or by one.
TEST(Axes, ReplicasInPartsMeetSeldomAsWholeOnesDo) {
  for (const auto kind : {tw::train::Meeting::local_sgd, tw::train::Meeting::diloco}) {
    for (const auto& [stages, split] : {std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)}) {
      if (world().size() % (stages * split) != 0) continue;
      const int replicas = world().size() / (stages * split);
      const int group = world().rank() / replicas;
      const auto options = [&](const std::string& name) {
        Options chosen = clipped(name);
        chosen.replicas = {.meet = kind, .period = 4};
        chosen.checkpoint.every_epochs = 1;
        chosen.resume = tw::train::Resume::fresh;
        return chosen;
      };
      const Mesh whole(world().split(group, 0), {{"data"}});
      const auto expected = train(whole, model_of(whole_net()), options(tw::concat("seldom_whole", group))).summary;
      const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
      const std::string what = tw::concat(static_cast<int>(kind), " on ", mesh.shape().describe());
      expect_equal(train(mesh, model_of(split_model(split_pipeline(mesh))), options("seldom")).summary, expected, what);
      for (const bool resumes : {false, true}) {
        Options interrupted = options("seldom");
        interrupted.resume = resumes ? tw::train::Resume::resume : tw::train::Resume::fresh;
        const auto summary = train_a_part(mesh, model_of(split_model(split_pipeline(mesh))), interrupted, 6);
        if (resumes) expect_equal(summary, expected, what + ", resumed");
      }
    }
  }
}

// Where gradients meet along `data`, whoever holds the model together.
TW_TEST_ON(Axes, GradientsOfPartsTravelInHalfPrecision, {.least = 4}) {
  for (const auto& [stages, split] : {std::pair(2, 1), std::pair(1, 2)}) {
    const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
    Options options = three_epochs("halves");
    const auto plain = train(mesh, model_of(split_model(split_pipeline(mesh))), options).summary;
    options.replicas.compression = tw::train::CompressionKind::float16;
    const auto halves = train(mesh, model_of(split_model(split_pipeline(mesh))), options).summary;
    EXPECT_NE(halves.test[0].second, plain.test[0].second);
    EXPECT_NEAR(halves.test[0].second, plain.test[0].second, 0.01 * plain.test[0].second);
    EXPECT_NEAR(halves.bytes_per_step, plain.bytes_per_step / 4, 0.02 * plain.bytes_per_step) << "of float64";
  }
}

// A layer shared by two stages that also have other layers: reduced by a ring over hosts, each stage would add its gradients in its own order; and
// each stage has servers of its own.
void expect_tied_stages_to_keep_the_same_bits(const char* axis, const tw::train::ReplicaOptions& replicas) {
  using namespace tw::pipeline;
  const int stages = world().size() % 2 == 0 ? 2 : 1;
  const Mesh mesh(world(), {{axis}, {"stage", stages}});
  const torch::nn::Linear shared(70, 70);
  const auto tied = block([shared] { return shared; });
  const std::vector<BlockFactory> blocks{block([] { return torch::nn::Linear(4, 70); }),  tied,
                                         block([] { return torch::nn::Tanh(); }),         block([] { return torch::nn::Linear(70, 73); }),
                                         block([] { return torch::nn::Linear(73, 70); }), tied,
                                         block([] { return torch::nn::Linear(70, 1); })};
  torch::manual_seed(6);
  const auto net = std::make_shared<Pipeline>(mesh["stage"], blocks, PipelineOptions{.schedule = one_forward_one_backward(stages, 2)});
  net->to(torch::kDouble);
  Options options = three_epochs("tied");
  options.replicas = replicas;
  const bool every_step = replicas.meet == tw::train::Meeting::every_step;
  options.shard.what = every_step ? tw::train::Sharded::optimizer : tw::train::Sharded::parameters;
  options.epochs = tw::testing::longer("TEST_UPDATES", 18) / 6;
  (void)train(mesh, model_of(net), options);
  int found = 0;
  for (const auto& parameter : net->named_parameters()) {
    if (parameter.value().sizes() != at::IntArrayRef{70, 70} || found++ > 0) continue;
    EXPECT_TRUE(tw::compare_replicas(world(), parameter.value()).identical) << parameter.key();
  }
  EXPECT_GE(found, 1);
}

TEST(Axes, TiedStagesKeepTheSameBits) {
  expect_tied_stages_to_keep_the_same_bits("data", {});
  expect_tied_stages_to_keep_the_same_bits("data", {.meet = tw::train::Meeting::parameter_server, .period = 2});
  expect_tied_stages_to_keep_the_same_bits("shard", {});
}

TW_TEST_ON(Axes, ServersOfTiedStagesAreNotDivided, {.least = 4}) {
  const auto train_them = [] { expect_tied_stages_to_keep_the_same_bits("shard", {.meet = tw::train::Meeting::parameter_server}); };
  EXPECT_NE(tw::testing::message_of(train_them).find("stages have a tied parameter"), std::string::npos);
}

TEST(Axes, ATensorMeshGoesOnOnAnother) {
  const auto expected = train(alone(), model_of(whole_net()), three_epochs("again_alone")).summary;
  Options options = three_epochs("again");
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  options.early_stopping.patience = 1000;
  for (const int ranks : {world().size() % 2 == 0 ? 2 : 1, 1}) {
    const Mesh mesh(world(), {{"data"}, {"tensor", ranks}});
    const auto summary = train_a_part(mesh, model_of(split_model(split_net(mesh["tensor"]))), options, 8);
    if (summary.finished) expect_equal(summary, expected, "resumed");
    options.resume = tw::train::Resume::resume;
  }
}

TEST(Axes, DataTimesTensorTimesStageIsOneProcess) {
  const auto expected = train(alone(), model_of(whole_net()), three_epochs("three_axes_alone")).summary;
  for (const int stages : {1, 2}) {
    for (const int split : {1, 2}) {
      if (world().size() % (stages * split) != 0) continue;
      const Mesh mesh(world(), {{"data"}, {"tensor", split}, {"stage", stages}});
      const auto net = split_pipeline(mesh);
      Options options = three_epochs("three_axes");
      options.checkpoint.every_epochs = 1;
      options.resume = tw::train::Resume::fresh;
      const auto ran = train(mesh, model_of(split_model(net)), options);
      expect_equal(ran.summary, expected, mesh.shape().describe());
      if (world().rank() != 0) continue;
      const tw::SafetensorsFile best(options.folder() / "best.safetensors");
      EXPECT_EQ(best.names().size(), 6U) << mesh.shape().describe();
      EXPECT_EQ(best.tensor("2.weight").sizes(), (std::vector<int64_t>{6, 8})) << mesh.shape().describe();
    }
  }
}

}  // namespace axes_test
