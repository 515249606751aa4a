// SPDX-License-Identifier: Apache-2.0
// What users of a Trainer do by habit: as in one process, or an error.
#include <filesystem>

#include "message_of.hpp"
#include "regression_run.hpp"

namespace trainer_user_test {

using namespace tw::testing;
using tw::train::State;
using tw::train::Summary;

struct Rates : tw::train::Hook {
  void on_update(State& state) override { seen.push_back(state.learning_rate); }
  void on_end_epoch(State& state, const tw::train::EpochReport& /*report*/) override {
    for (auto& group : state.optimizer.param_groups()) group.options().set_lr(group.options().get_lr() * 0.1);
  }
  std::vector<double> seen;
};

struct Throws : tw::train::Hook {
  void on_update(State& state) override {
    if (state.step == 7) throw std::runtime_error("the test says so");
  }
};

/// Trains a regressor. @param change called with the Trainer before it runs
template <class Change>
Summary trained(const tw::train::Options& options, torch::optim::Optimizer& optimizer, const tw::train::Model& model, const Change& change,
                int64_t samples = 31) {
  const auto data = squares(samples);
  tw::train::Trainer trainer(tw::Mesh(world(), {{"data"}}), model, optimizer, tw::train::regression(), data, data, options, &data);
  change(trainer);
  return trainer.run();
}

TEST(TrainerUser, SetsLearningRatesInHooks) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Rates rates;
  (void)trained(three_epochs("rates"), sgd, model, [&](auto& trainer) { trainer.add(rates); });
  ASSERT_EQ(rates.seen.size(), 18U);
  EXPECT_DOUBLE_EQ(rates.seen[0], 0.1);
  EXPECT_DOUBLE_EQ(rates.seen[6], 0.01);
  EXPECT_DOUBLE_EQ(rates.seen[17], 0.001);
}

TEST(TrainerUser, TrainsTwiceWithOneOptimizer) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  tw::train::Options options = three_epochs("twice");
  options.schedule.decay = tw::train::LearningRateOptions::Decay::cosine;
  for (int i = 0; i < 2; ++i) {
    (void)trained(options, sgd, model, [](auto&) {});
    EXPECT_DOUBLE_EQ(sgd.param_groups()[0].options().get_lr(), 0.1);
  }
}

// The next user of an optimizer finds the rates that this one found, also after an error.
TEST(TrainerUser, PutsLearningRatesBack) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Rates rates;
  (void)trained(three_epochs("put_back"), sgd, model, [&](auto& trainer) { trainer.add(rates); });
  EXPECT_DOUBLE_EQ(sgd.param_groups()[0].options().get_lr(), 0.1);
  Throws throws;
  EXPECT_THROW((void)trained(three_epochs("put_back"), sgd, model,
                             [&](auto& trainer) {
                               trainer.add(rates);
                               trainer.add(throws);
                             }),
               std::runtime_error);
  EXPECT_DOUBLE_EQ(sgd.param_groups()[0].options().get_lr(), 0.1);
}

struct FailsOnFewSamples : tw::train::Hook {
  void on_forward(State& state) override {
    if (state.batch.size() == 1 && state.comm.rank() == 0 && state.samples == 30) throw std::runtime_error("the hook fails");
  }
};

// What fails in a hook is not the model's fault.
TEST(TrainerUser, ReadsTheErrorsOfItsHooks) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  FailsOnFewSamples fails;
  const std::string error = message_of([&] { (void)trained(three_epochs("fails_on_few"), sgd, model, [&](auto& trainer) { trainer.add(fails); }); });
  EXPECT_NE(error.find("the hook fails"), std::string::npos) << error;
  EXPECT_EQ(error.find("drop_last"), std::string::npos) << error;
}

/// Takes the trainer's state back at the end of each epoch, as a user does who returns to the best one.
struct ReturnsToItself : tw::train::Hook {
  void on_end_epoch(State& /*state*/, const tw::train::EpochReport& /*report*/) override { trainer->apply(trainer->shards()); }
  tw::train::Trainer* trainer = nullptr;
};

TEST(TrainerUser, KeepsItsScheduleWhereItsStateIsApplied) {
  tw::train::Options options = three_epochs("applied");
  options.schedule.decay = tw::train::LearningRateOptions::Decay::cosine;
  const auto parameters = [&](bool applies) {
    const auto model = make_regressor(0);
    torch::optim::SGD sgd(model.tensors(), 0.1);
    ReturnsToItself returns;
    (void)trained(options, sgd, model, [&](auto& trainer) {
      returns.trainer = &trainer;
      if (applies) trainer.add(returns);
    });
    return copies(model);
  };
  EXPECT_TRUE(bitwise_equal(parameters(true), parameters(false)));
}

TEST(TrainerUser, ResumesTheRatesThatHooksHaveSet) {
  tw::train::Options options = three_epochs("rates_resumed");
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Rates rates;
  Witness witness(14);
  (void)trained(options, sgd, model, [&](auto& trainer) {
    trainer.add(rates);
    trainer.add(witness);
  });
  options.resume = tw::train::Resume::resume;
  Rates resumed;
  (void)trained(options, sgd, model, [&](auto& trainer) { trainer.add(resumed); });
  ASSERT_EQ(resumed.seen.size(), 3U);
  EXPECT_DOUBLE_EQ(resumed.seen[0], 0.001);
  options.resume = tw::train::Resume::resume;
  options.epochs = 4;
  sgd.param_groups()[0].options().set_lr(0.5);  // the user's own wish
  Rates wished;
  (void)trained(options, sgd, model, [&](auto& trainer) { trainer.add(wished); });
  ASSERT_FALSE(wished.seen.empty());
  EXPECT_DOUBLE_EQ(wished.seen[0], 0.5);
}

struct Grows : tw::train::Hook {
  void on_update(State& state) override {
    if (state.step == 1) state.optimizer.add_param_group(torch::optim::OptimizerParamGroup({torch::ones(1)}));
  }
};

TEST(TrainerUser, AddsNoParameterGroups) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Grows grows;
  const std::string error = message_of([&] { (void)trained(three_epochs("groups"), sgd, model, [&](auto& trainer) { trainer.add(grows); }); });
  EXPECT_NE(error.find("had 1 parameter groups when the Trainer was made, and has 2"), std::string::npos) << error;
}

struct Shrinks : tw::train::Hook {
  void on_sample(State& state) override { state.batch.inputs = state.batch.inputs.narrow(0, 0, 0); }
};

TEST(TrainerUser, KeepsTheRowsOfABatch) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Shrinks shrinks;
  const std::string error = message_of([&] { (void)trained(three_epochs("rows"), sgd, model, [&](auto& trainer) { trainer.add(shrinks); }); });
  EXPECT_NE(error.find("a hook has changed the number of a batch's samples"), std::string::npos) << error;
}

struct Norms : tw::train::Hook {
  explicit Norms(at::Tensor of) : parameter(std::move(of)) {}
  void on_backward(State& /*state*/) override { seen.push_back(parameter.grad().norm().item<double>()); }
  at::Tensor parameter;
  std::vector<double> seen;
};

// What the optimizer does not have gets a gradient all the same, which must not add up from update to update.
TEST(TrainerUser, TrainsAPartOfTheParameters) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd({model.tensors().back()}, 0.0);
  tw::train::Options options = three_epochs("part");
  options.global_batch = 31;
  options.accumulation = 1;
  Norms norms(model.tensors().front());
  (void)trained(options, sgd, model, [&](auto& trainer) { trainer.add(norms); });
  ASSERT_EQ(norms.seen.size(), 3U);
  EXPECT_NEAR(norms.seen[2], norms.seen[0], 1e-12 * norms.seen[0]);
}

// Some ranks have no samples in the last update.
TEST(TrainerUser, LeavesUnusedParametersAlone) {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(4, 1), torch::nn::Linear(1, 1));
  net->to(torch::kDouble);
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->ptr<torch::nn::LinearImpl>(0)->forward(x); });
  torch::optim::AdamW adam(model.tensors(), torch::optim::AdamWOptions(0.1).weight_decay(0.5));
  const at::Tensor unused = net->ptr<torch::nn::LinearImpl>(1)->weight;
  const at::Tensor before = unused.detach().clone();
  tw::train::Options options = quick("unused");
  options.epochs = 2;
  options.global_batch = 4;
  (void)trained(options, adam, model, [](auto&) {}, 5);
  EXPECT_TRUE(unused.equal(before));
}

TEST(TrainerUser, ChecksPointsWhereAnEpochEnds) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  tw::train::Options options = three_epochs("every_steps");
  options.checkpoint.every_steps = 6;  // of which an epoch has as many
  options.checkpoint.keep = 10;
  (void)trained(options, sgd, model, [](auto&) {});
  for (const char* step : {"step_00000006", "step_00000012"}) EXPECT_TRUE(std::filesystem::exists(options.folder() / "checkpoints" / step)) << step;
}

TEST(TrainerUser, KeepsFrozenIntegersOfReplicasThatMeetSeldom) {
  const auto model_with_table = [] {
    torch::manual_seed(3);
    torch::nn::Sequential net(torch::nn::Linear(4, 1));
    net->to(torch::kDouble);
    net->register_parameter("table", torch::arange(3), /*requires_grad=*/false);
    return tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  };
  const auto model = model_with_table();
  torch::optim::SGD sgd(model.tensors(), 0.01);
  tw::train::Options options = options_for("integers", {.meet = tw::train::Meeting::local_sgd, .period = 2});
  options.checkpoint.every_epochs = 1;
  EXPECT_NO_THROW((void)trained(options, sgd, model, [](auto&) {}));
}

// The period is longer than an epoch.
TEST(TrainerUser, KeepsWhatElasticAveragingHasNotExchanged) {
  const auto begin = copies(make_regressor(0.2));
  const auto options = options_for("elastic", {.meet = tw::train::Meeting::parameter_server, .period = 50});
  const Outcome outcome = run<torch::optim::SGD>(world(), options, torch::optim::SGDOptions(0.05));
  EXPECT_FALSE(bitwise_equal(outcome.parameters, begin));
}

std::string refusal(const std::vector<tw::MeshAxis>& axes, const tw::train::Model& model, const tw::Dataset& data, const tw::train::Options& options,
                    int steps_before = 0) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.1).momentum(0.9));
  for (const at::Tensor& each : model.tensors()) each.mutable_grad() = torch::ones_like(each);
  for (int i = 0; i < steps_before; ++i) sgd.step();
  return message_of([&] { tw::train::Trainer(tw::Mesh(world(), axes), model, sgd, tw::train::regression(), data, data, options); });
}

// As users of one process a part of the data do.
TEST(TrainerUser, GetsTheSameDataOnAllRanks) {
  const at::Tensor inputs = torch::full({31, 4}, static_cast<int>(world().rank()), torch::kDouble);
  const tw::TensorDataset mine(inputs, inputs.sum(1, /*keepdim=*/true));
  const std::string error = refusal({{"data"}}, make_regressor(0), mine, quick("own_data"));
  if (world().size() == 1) {
    EXPECT_EQ(error, "nothing thrown");
  } else {
    EXPECT_NE(error.find("the training set has other samples on rank 1 than on rank 0"), std::string::npos) << error;
  }
}

struct Noisy : tw::Dataset {
  int64_t size() const override { return 31; }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    return {torch::rand({count, 4}, torch::kDouble), torch::zeros({count, 1}, torch::kDouble)};
  }
};

struct TogetherOnEachRank : tw::ModelDecorator {
  using ModelDecorator::ModelDecorator;
  std::vector<std::string> axes() const override { return {"tensor"}; }
};

TEST(TrainerUser, DrawsSamplesOnlyWhereARankHasTheWholeModel) {
  const auto model = make_regressor(0);
  EXPECT_EQ(refusal({{"data"}}, model, Noisy(), quick("noisy")), "nothing thrown");
  const auto together = tw::train::model_of(std::make_shared<TogetherOnEachRank>(model.trained));
  const std::string error = refusal({{"tensor"}}, together, Noisy(), quick("noisy"));
  if (world().size() == 1) {
    EXPECT_EQ(error, "nothing thrown");
  } else {
    EXPECT_NE(error.find("samples of the training set change from one reading to the next"), std::string::npos) << error;
  }
}

TEST(TrainerUser, LosesNoStateOfAnOptimizer) {
  tw::train::Options options = quick("state");
  options.shard.what = tw::train::Sharded::optimizer;
  const std::string error = refusal(along_shard, make_regressor(0), squares(31), options, 1);
  EXPECT_NE(error.find(world().size() > 1 ? "has state of earlier steps, which would be lost" : "nothing thrown"), std::string::npos) << error;
}

TEST(TrainerUser, EvaluatesNoModelThatIsYetToBeResumed) {
  tw::train::Options options = three_epochs("early_evaluation");
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  const auto data = squares(31);
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  Witness witness(8);
  (void)trained(options, sgd, model, [&](auto& trainer) { trainer.add(witness); });
  options.resume = tw::train::Resume::resume;
  (void)trained(options, sgd, model, [&](auto& trainer) {
    const std::string error = message_of([&] { (void)trainer.evaluate(data); });
    EXPECT_NE(error.find("run() has not yet loaded the checkpoint that it resumes"), std::string::npos) << error;
  });
}

}  // namespace trainer_user_test
