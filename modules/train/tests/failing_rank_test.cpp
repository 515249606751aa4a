// SPDX-License-Identifier: Apache-2.0
// What throws on one rank, anywhere in a run, ends the run on all ranks: that rank gets its exception, the others a RevokedError with its message.
#include "message_of.hpp"
#include "regression_run.hpp"

#include <tw/data_parallel/sync_batch_norm.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/mpi/error.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/tensor_parallel/linear.hpp>
#include <tw/tensor_parallel/split_model.hpp>

namespace failing_rank_test {

using namespace tw::testing;
using tw::Mesh;
using tw::train::Meeting;
using tw::train::Model;
using tw::train::model_of;
using tw::train::State;

/// Throws on the last rank where it is told to, once the run has begun.
struct Fault {
  std::string place;
  int64_t first_step = 0;  // of a hook on samples
  bool has_begun = false;
  void reach(const std::string& here) const {
    if (has_begun && here == place && world().rank() == world().size() - 1) throw std::runtime_error("a rank has failed");
  }
};

struct FaultyHook : tw::train::Hook {
  explicit FaultyHook(Fault& of) : fault(of) {}
  void on_start(State& /*state*/) override {
    fault.has_begun = true;
    fault.reach("on_start");
  }
  void on_start_epoch(State& /*state*/) override { fault.reach("on_start_epoch"); }
  void on_sample(State& state) override {
    if (state.step >= fault.first_step) fault.reach("on_sample");
  }
  void on_forward(State& /*state*/) override { fault.reach("on_forward"); }
  void on_backward(State& /*state*/) override { fault.reach("on_backward"); }
  void on_update(State& /*state*/) override { fault.reach("on_update"); }
  void on_end_epoch(State& /*state*/, const tw::train::EpochReport& /*report*/) override { fault.reach("on_end_epoch"); }
  void on_end(State& /*state*/, const tw::train::Summary& /*summary*/) override { fault.reach("on_end"); }
  Fault& fault;
};

struct FaultyData : tw::Dataset {
  FaultyData(const Fault& of, std::string named) : fault(of), name(std::move(named)) {}
  int64_t size() const override { return all.size(); }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    fault.reach(name);
    return all.batch(indices);
  }
  const Fault& fault;
  std::string name;
  tw::TensorDataset all = squares(31);
};

/// Trains with a fault. Expects that all ranks throw, a slow one perhaps while it still makes its Trainer.
void expect_end(const std::string& place, const Mesh& mesh, const Model& model, const tw::train::Options& options, int64_t first_step = 0) {
  SCOPED_TRACE(tw::concat(options.name, ", ", place));
  Fault fault{place, first_step};
  FaultyHook hook(fault);
  const FaultyData train(fault, "training set"), validation(fault, "validation set"), test(fault, "test set");
  tw::train::Objective objective = tw::train::regression();
  if (place == "weight") {  // otherwise ranks would wait for each other there, and not in the model
    objective.weight = [&](const at::Tensor& targets) {
      fault.reach("weight");
      return static_cast<double>(targets.size(0));
    };
  }
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.01).momentum(0.9));
  try {
    tw::train::Trainer trainer(mesh, model, sgd, objective, train, test, options, &validation);
    trainer.add(hook);
    trainer.run();
    ADD_FAILURE() << "nothing thrown";
  } catch (const std::exception& error) {
    const bool fails = world().rank() == world().size() - 1;
    EXPECT_EQ(dynamic_cast<const tw::RevokedError*>(&error) == nullptr, fails) << error.what();
    EXPECT_NE(std::string(error.what()).find("a rank has failed"), std::string::npos) << error.what();
  }
}

TEST(FailingRank, EndsARunOnAllRanksWhereverItFails) {
  for (const char* place : {"on_start", "on_start_epoch", "on_sample", "on_forward", "on_backward", "on_update", "on_end_epoch", "training set",
                            "validation set", "test set", "weight", "on_end"}) {
    expect_end(place, Mesh(world(), {{"data"}}), make_regressor(0), three_epochs("fails"));
  }
}

TEST(FailingRank, EndsAnEvaluationOnAllRanks) {
  Fault fault{"a set"};
  const FaultyData data(fault, "a set");
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.01);
  const auto samples = squares(31);
  tw::train::Trainer trainer(Mesh(world(), {{"data"}}), model, sgd, tw::train::regression(), samples, samples, three_epochs("evaluation"));
  fault.has_begun = true;
  const std::string error = message_of([&] { (void)trainer.evaluate(data); });
  EXPECT_NE(error.find("a rank has failed"), std::string::npos) << error;
}

/// Models whose passes communicate, on communicators of their own and of the user.
Model normalised(const Mesh& mesh) {
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 1));
  net->to(torch::kDouble);
  tw::synchronize_batch_norms(*net, mesh["data"], tw::Reduction::sum);
  return model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
}
torch::nn::Sequential split_net(const tw::Communicator& axis) {
  torch::nn::Sequential net(tw::tensor_parallel::ColumnParallelLinear(axis, 4, 12), torch::nn::Tanh(),
                            tw::tensor_parallel::RowParallelLinear(axis, 12, 1));
  net->to(torch::kDouble);
  return net;
}
Model split(const Mesh& mesh) { return model_of(tw::tensor_parallel::split_model(split_net(mesh["tensor"]))); }
Model layers(const Mesh& mesh) {
  using namespace tw::layer_parallel;
  const auto residual = [] { return torch::nn::Sequential(torch::nn::Linear(8, 8), torch::nn::Tanh()); };
  const std::vector<Block> blocks{block([] { return torch::nn::Linear(4, 8); }, 1), block(residual, 12),
                                  block([] { return torch::nn::Linear(8, 1); }, 1)};
  const auto net = std::make_shared<LayerParallel>(mesh["layer"], blocks, LayerParallelOptions{});
  net->to(torch::kDouble);
  return model_of(net);
}
Model stages(const Mesh& mesh) {
  using namespace tw::pipeline;
  const std::vector<BlockFactory> blocks{block([] { return torch::nn::Linear(4, 8); }), block([] { return torch::nn::Linear(8, 8); }),
                                         block([] { return torch::nn::Linear(8, 1); })};
  const int count = mesh["stage"].size();
  const auto net = std::make_shared<Pipeline>(mesh["stage"], blocks, PipelineOptions{.schedule = one_forward_one_backward(count, 2)});
  net->to(torch::kDouble);
  return model_of(net);
}

TEST(FailingRank, EndsARunOfModelsThatCommunicate) {
  struct Kind {
    std::string axis;
    Model (*model)(const Mesh& mesh);
  };
  for (const Kind& kind : {Kind{"data", &normalised}, Kind{"tensor", &split}, Kind{"layer", &layers}, Kind{"stage", &stages}}) {
    for (const char* place : {"on_sample", "on_forward", "validation set"}) {
      const Mesh mesh(world().dup(), {{kind.axis}});  // it is revoked
      torch::manual_seed(4);
      tw::train::Options options = three_epochs("fails_along_" + kind.axis);
      options.drop_last = true;  // a batch norm refuses one sample
      expect_end(place, mesh, kind.model(mesh), options);
    }
  }
}

TEST(FailingRank, LeavesACheckpointToResumeFrom) {
  for (const Way& way :
       {Way{}, Way{.name = "optimizer", .axes = along_shard, .shard = {.what = tw::train::Sharded::optimizer}},
        Way{.name = "parameters", .axes = along_shard}, Way{.name = "local_sgd", .replicas = {.meet = Meeting::local_sgd, .period = 5}},
        Way{.name = "servers", .replicas = {.meet = Meeting::parameter_server, .period = 5}}}) {
    tw::train::Options options = options_for("fails_" + way.name, way);
    options.checkpoint.every_steps = 1;
    for (const char* place : {"on_sample", "on_end_epoch"}) {
      options.resume = tw::train::Resume::fresh;
      expect_end(place, Mesh(world(), way.axes), make_regressor(0), options, 3);
    }
    options.resume = tw::train::Resume::resume;
    const auto model = make_regressor(0);
    torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.01).momentum(0.9));
    const Fault none;
    const FaultyData data(none, "");
    tw::train::Trainer trainer(Mesh(world(), way.axes), model, sgd, tw::train::regression(), data, data, options, &data);
    EXPECT_TRUE(trainer.run().finished) << way.name;
  }
}

}  // namespace failing_rank_test
