// SPDX-License-Identifier: Apache-2.0
// A non-finite loss or gradient on one rank is reported with step, rank and parameter, and handled by the chosen reaction.
#include "support.hpp"

#include <cmath>
#include <limits>

namespace non_finite_test {

using tw::testing::make_regressor;
using tw::testing::squares;
using tw::testing::world;
using tw::train::Meeting;
using tw::train::NonFinite;
using tw::train::Trainer;

tw::train::Options options_for(const std::string& name, NonFinite reaction) {
  auto options = tw::testing::quick(name);
  options.epochs = 2;
  options.batch_size = 3;
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  options.non_finite = reaction;
  return options;
}

/// Sets an input of one rank's batch to a value in step `step`, once.
struct Spoiler : tw::train::Hook {
  Spoiler(int64_t at, double with, int of = world().size() - 1) : step(at), value(with), rank(of) {}
  void on_sample(tw::train::State& state) override {
    if (state.step == step && state.comm.rank() == rank && !done) state.batch.inputs[0][0].fill_(value);
    done = done || state.step == step;
  }
  int64_t step;
  double value;
  int rank;
  bool done = false;
};

struct Outcome {
  tw::train::Summary summary;
  tw::train::Model model;
};

Outcome run(const tw::train::Options& options, int64_t step, double value) {
  Outcome outcome{{}, make_regressor(0)};
  torch::optim::Adam adam(outcome.model.tensors(), 0.01);
  const auto data = squares(12 * world().size());  // 4 steps per epoch
  Trainer trainer(world(), outcome.model, adam, tw::train::regression(), data, data, options);
  Spoiler spoiler(step, value);
  trainer.add(spoiler);
  outcome.summary = trainer.run();
  return outcome;
}

void expect_finite(const tw::train::Model& model) {
  for (const auto& [name, tensor] : model.all_tensors()) EXPECT_TRUE(torch::isfinite(tensor).all().item<bool>()) << name;
}

tw::train::Model make_with_running_means() {
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 1));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  return tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
}

TEST(NonFinite, StopsAndNamesStepRankAndParameter) {
  const auto outcome = run(options_for("nan_stop", NonFinite::stop), 2, std::numeric_limits<double>::quiet_NaN());
  const std::string who = tw::concat("step 3: rank ", world().size() - 1, ": the loss is nan, the gradient of 0.weight is not finite");
  EXPECT_EQ(outcome.summary.stopped_because, who);
  EXPECT_FALSE(outcome.summary.finished);
  expect_finite(outcome.model);
}

TEST(NonFinite, LeavesTheUpdateOut) {
  const auto outcome = run(options_for("nan_skip", NonFinite::skip), 2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(outcome.summary.skipped_steps, 1);
  EXPECT_EQ(outcome.summary.steps, 8);
  EXPECT_TRUE(outcome.summary.finished);
  expect_finite(outcome.model);
}

/// Compares each rank's buffers, which the Trainer makes equal only now and then, before and after the skipped update.
struct BufferWitness : tw::train::Hook {
  explicit BufferWitness(int64_t at) : step(at) {}
  void on_update(tw::train::State& state) override {
    std::vector<at::Tensor> now;
    for (const auto& buffer : state.model.buffers) now.push_back(buffer.tensor.detach().clone());
    EXPECT_EQ(tw::testing::bitwise_equal(now, before), state.step == step + 1) << state.step;
    before = now;
  }
  int64_t step;
  std::vector<at::Tensor> before;
};

TEST(NonFinite, AnUpdateThatIsLeftOutLeavesNoTraceInRunningMeans) {
  const auto model = make_with_running_means();
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = squares(16 * world().size());
  auto options = options_for("nan_buffers", NonFinite::skip);
  options.batch_size = 4;
  options.accumulation = 2;
  Trainer trainer(world(), model, adam, tw::train::regression(), data, data, options);
  Spoiler spoiler(2, std::numeric_limits<double>::quiet_NaN());
  BufferWitness witness(2);
  trainer.add(spoiler);
  trainer.add(witness);
  EXPECT_EQ(trainer.run().skipped_steps, 1);
  expect_finite(model);
}

struct LossRecorder : tw::train::Hook {
  void on_end_epoch(tw::train::State&, const tw::train::EpochReport& report) override { losses.push_back(report.train_loss); }
  std::vector<double> losses;
};

TEST(NonFinite, TheTrainingLossIsTheMeanOfWhatIsFinite) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 1e-300);  // nothing moves, and all samples are equal: any mean over them is the loss of one
  const tw::TensorDataset data(torch::ones({12 * world().size(), 4}, torch::kDouble), torch::ones({12 * world().size(), 1}, torch::kDouble));
  auto options = options_for("nan_loss", NonFinite::skip);
  Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
  Spoiler spoiler(1, std::numeric_limits<double>::quiet_NaN());
  LossRecorder recorder;
  trainer.add(spoiler);
  trainer.add(recorder);
  const double loss = tw::train::figure(trainer.run().test, "loss");
  for (const double train_loss : recorder.losses) EXPECT_NEAR(train_loss, loss, 1e-13 * loss);  // some 36 roundings
}

TEST(NonFinite, AnEpochWithoutFiniteLossesReportsNone) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = squares(6);
  struct SpoilsAll : tw::train::Hook {
    void on_sample(tw::train::State& state) override { state.batch.inputs.fill_(std::numeric_limits<double>::quiet_NaN()); }
  } spoiler;
  Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options_for("nan_only", NonFinite::skip));
  LossRecorder recorder;
  trainer.add(spoiler);
  trainer.add(recorder);
  trainer.run();
  for (const double train_loss : recorder.losses) EXPECT_TRUE(std::isnan(train_loss)) << train_loss;
}

TEST(NonFinite, IsLookedForWithTheRandomNumbersOfThePassThatFailed) {
  std::vector<double> drawn;
  torch::nn::Sequential net(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  const auto model = tw::train::model_of(net.ptr(), [net, &drawn](const at::Tensor& inputs) mutable {
    drawn.push_back(torch::rand({1}, torch::kDouble).item<double>());
    return net->forward(inputs);
  });
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = squares(24 * world().size());
  auto options = options_for("nan_draws", NonFinite::stop);
  options.batch_size = 6;
  options.accumulation = 2;
  Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
  struct SecondPass : tw::train::Hook {
    void on_sample(tw::train::State& state) override {
      if (++passes == 4 && state.comm.rank() == state.comm.size() - 1) state.batch.inputs.fill_(std::numeric_limits<double>::quiet_NaN());
    }
    int passes = 0;
  } spoiler;
  trainer.add(spoiler);
  EXPECT_EQ(trainer.run().steps, 2);
  ASSERT_EQ(drawn.size(), 5U);  // four passes, and the diagnosis
  EXPECT_EQ(drawn[4], drawn[3]);
}

TEST(NonFinite, SeesInfiniteGradientsOfAFiniteLoss) {
  // An input of 1e308 saturates the hidden layer: the loss is finite, but the gradient of the first weights is an infinite input times zero.
  const auto outcome = run(options_for("inf_skip", NonFinite::skip), 1, std::numeric_limits<double>::infinity());
  EXPECT_EQ(outcome.summary.skipped_steps, 1);
  expect_finite(outcome.model);
}

TEST(NonFinite, IsFoundInSparseGradients) {
  for (const auto kind : {Meeting::every_step, Meeting::local_sgd}) {
    torch::nn::Sequential net(torch::nn::Embedding(torch::nn::EmbeddingOptions(8, 4).sparse(true)), torch::nn::Linear(4, 1));
    net->to(torch::kDouble);
    const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
    torch::optim::SGD sgd(model.tensors(), 0.1);
    const int64_t samples = 12 * world().size();
    const tw::TensorDataset data(torch::arange(samples) % 8, torch::ones({samples, 1}, torch::kDouble));
    auto options = options_for("nan_sparse", NonFinite::stop);
    options.replicas = {.meet = kind, .period = 2};
    Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
    struct SpoilsTargets : tw::train::Hook {
      void on_sample(tw::train::State& state) override {
        if (state.step == 2 && world().rank() == world().size() - 1) state.batch.targets.fill_(std::numeric_limits<double>::quiet_NaN());
      }
    } spoiler;
    trainer.add(spoiler);
    const std::string who = tw::concat("rank ", world().size() - 1, ": the loss is nan, the gradient of 0.weight is not finite");
    const auto summary = trainer.run();
    EXPECT_NE(summary.stopped_because.find(who), std::string::npos) << summary.stopped_because;
    expect_finite(model);
  }
}

// The infinite part of the loss has no gradient.
TEST(NonFinite, SeesAnInfiniteLossOfFiniteGradients) {
  const auto model = make_regressor(0);
  const std::vector<at::Tensor> before = tw::testing::copies(model);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = squares(3 * world().size());
  auto options = options_for("inf_loss", NonFinite::skip);
  options.epochs = 1;  // one step
  tw::train::Objective objective = tw::train::regression();
  objective.loss = [](const at::Tensor& outputs, const at::Tensor& targets) {
    const at::Tensor usual = targets.clamp(-9, 9);
    return torch::mse_loss(outputs, usual) + (targets - usual).sum();
  };
  Trainer trainer(world(), model, sgd, objective, data, data, options);
  struct SpoilsTargets : tw::train::Hook {
    void on_sample(tw::train::State& state) override {
      if (world().rank() == world().size() - 1) state.batch.targets[0].fill_(std::numeric_limits<double>::infinity());
    }
  } spoiler;
  trainer.add(spoiler);
  EXPECT_EQ(trainer.run().skipped_steps, 1);
  if (world().rank() == 0) {  // the others started from rank 0's parameters
    EXPECT_TRUE(tw::testing::bitwise_equal(tw::testing::copies(model), before));
  }
}

TEST(NonFinite, GoesBackToTheCheckpoint) {
  const auto outcome = run(options_for("nan_restore", NonFinite::restore), 6, std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(outcome.summary.skipped_steps, 1);
  EXPECT_EQ(outcome.summary.steps, 8);
  EXPECT_TRUE(outcome.summary.finished);
  expect_finite(outcome.model);
}

// Checkpoints hold rank 0's running means. The sixth step fails, and the ranks learn of it in the eighth. The run goes back to, or is resumed from,
// checkpoints in between.
TEST(NonFinite, LeavesNoTraceInCheckpointsBeforeTheRanksMeet) {
  for (const auto kind : {Meeting::local_sgd, Meeting::diloco}) {
    for (const auto reaction : {NonFinite::restore, NonFinite::stop}) {
      auto options = options_for("nan_unheard", reaction);
      options.replicas = {.meet = kind, .period = 4};
      options.checkpoint.every_steps = 1;
      const auto train = [&](int64_t spoiled_step) {
        const auto model = make_with_running_means();
        torch::optim::SGD sgd(model.tensors(), 0.01);
        const auto data = squares(12 * world().size());
        Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options, &data);
        Spoiler spoiler(spoiled_step, std::numeric_limits<double>::quiet_NaN(), /*of=*/0);
        trainer.add(spoiler);
        const auto summary = trainer.run();
        EXPECT_EQ(summary.steps, 8);
        expect_finite(model);
        EXPECT_TRUE(std::isfinite(tw::train::figure(summary.validation, "loss")));
        return summary;
      };
      const auto summary = train(5);
      EXPECT_EQ(summary.skipped_steps, reaction == NonFinite::restore ? 1 : 0);
      EXPECT_EQ(summary.finished, reaction == NonFinite::restore);
      if (summary.finished) continue;
      options.resume = tw::train::Resume::resume;
      EXPECT_TRUE(train(/*spoiled_step=*/-1).finished);
    }
  }
}

/// Asks for the end of the run after step `step`.
struct Stopper : tw::train::Hook {
  explicit Stopper(int64_t at) : step(at) {}
  void on_update(tw::train::State& state) override {
    if (state.step == step) state.stop("the test says so");
  }
  int64_t step;
};

void expect_the_same_on_all_ranks(const tw::train::Model& model) {
  for (const auto& [name, tensor] : model.parameters) {
    const at::Tensor of_rank_0 = tensor.detach().clone();
    tw::broadcast(world(), of_rank_0, tw::Rank(0));
    EXPECT_TRUE(tensor.equal(of_rank_0)) << name;
  }
}

// The checkpoint of step 3 lies in the middle of a period. The run goes back to it at the end of the epoch, in step 4, or in the step in which the
// run ends.
TEST(NonFinite, GoesBackToTheSameParametersOnAllRanks) {
  for (const auto kind : {Meeting::local_sgd, Meeting::diloco}) {
    for (const int64_t stop_after : {-1, 3}) {
      const auto model = make_regressor(0);
      torch::optim::SGD sgd(model.tensors(), 0.1);
      const auto data = squares((stop_after > 0 ? 18 : 12) * world().size());  // 6 steps per epoch, or 4
      auto options = options_for("nan_between", NonFinite::restore);
      options.epochs = 1;
      options.replicas = {.meet = kind, .period = stop_after > 0 ? 5 : 8};
      options.checkpoint.every_steps = 3;
      Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
      Spoiler spoiler(3, std::numeric_limits<double>::quiet_NaN());
      Stopper stopper(stop_after);
      trainer.add(spoiler);
      trainer.add(stopper);
      const auto summary = trainer.run();
      EXPECT_EQ(summary.skipped_steps, 1);
      EXPECT_EQ(summary.steps, stop_after > 0 ? 5 : 4);
      expect_the_same_on_all_ranks(model);
    }
  }
}

TEST(NonFinite, InTheLastEpochDoesNotFinishTheRun) {
  for (const auto& replicas : {tw::train::ReplicaOptions{}, {.meet = Meeting::local_sgd, .period = 8}}) {
    auto options = options_for("nan_last", NonFinite::stop);
    options.replicas = replicas;
    const auto outcome = run(options, 7, std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(outcome.summary.steps, 8);
    EXPECT_FALSE(outcome.summary.finished);
    options.resume = tw::train::Resume::resume;
    EXPECT_TRUE(run(options, -1, 0).summary.finished);
  }
}

TEST(NonFinite, EndsWhereThereIsNothingToGoBackTo) {
  const auto outcome = run(options_for("nan_nothing", NonFinite::restore), 2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(outcome.summary.finished);
  EXPECT_NE(outcome.summary.stopped_because.find("the loss is nan"), std::string::npos);
}

}  // namespace non_finite_test
