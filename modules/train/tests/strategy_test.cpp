// SPDX-License-Identifier: Apache-2.0
// Every strategy of the trainer: resumed runs are bitwise equal to uninterrupted ones, and strategies with the arithmetic of `data` have its result.
#include "regression_run.hpp"

#include <numeric>

namespace strategy_test {

using tw::testing::bitwise_equal;
using tw::testing::copies;
using tw::testing::expect_close;
using tw::testing::make_regressor;
using tw::testing::never;
using tw::testing::options_for;
using tw::testing::Outcome;
using tw::testing::run;
using tw::testing::run_adam;
using tw::testing::squares;
using tw::testing::world;
using tw::train::CompressionKind;
using tw::train::Resume;
using tw::train::StrategyKind;
using tw::train::StrategyOptions;

// The strategies available on this device.
std::vector<std::pair<std::string, StrategyOptions>> strategies() {
  std::vector<std::pair<std::string, StrategyOptions>> all{
      {"data", {}},
      {"float16", {.compression = CompressionKind::float16}},
      {"top_k", {.compression = CompressionKind::top_k, .top_k_fraction = 0.1}},
      {"power_sgd", {.compression = CompressionKind::power_sgd, .power_sgd_rank = 1}},
      {"sharded", {.kind = StrategyKind::sharded}},
      {"released", {.kind = StrategyKind::sharded, .release_gradients = true}},
      {"fully_sharded", {.kind = StrategyKind::fully_sharded, .unit_bytes = 200, .prefetch_units = 1}},
      {"local_sgd", {.kind = StrategyKind::local_sgd, .period = 4}},
      {"diloco", {.kind = StrategyKind::diloco, .period = 4}},
      {"diloco_bfloat16", {.kind = StrategyKind::diloco, .compression = CompressionKind::bfloat16, .period = 4}}};
  for (const auto& [name, kind] : {std::pair("one_copy", StrategyKind::sharded), std::pair("one_copy_in_slices", StrategyKind::fully_sharded)}) {
    if (tw::testing::device().is_cpu()) all.push_back({name, {.kind = kind, .one_copy_per_node = true}});
  }
  return all;
}

TEST(Strategy, ResumedRunsHaveTheSameBits) {
  for (const auto& [name, strategy] : strategies()) {
    const auto whole = run_adam(options_for("whole", strategy));
    EXPECT_TRUE(whole.summary.finished);
    for (const int64_t stop_at : {2, 7, 12}) {
      auto options = options_for("resumed_" + name, strategy);
      options.checkpoint.every_epochs = 1;
      options.resume = Resume::fresh;
      EXPECT_FALSE(run_adam(options, stop_at).summary.finished) << name;
      options.resume = Resume::resume;
      const auto second = run_adam(options);
      EXPECT_TRUE(second.summary.finished);
      EXPECT_EQ(second.summary.steps, 18);
      EXPECT_TRUE(bitwise_equal(second.parameters, whole.parameters)) << name << " stopped at " << stop_at;
      EXPECT_EQ(second.summary.test, whole.summary.test);
    }
  }
}

// In the middle of a period, when the ranks' parameters differ: 3 steps after the meeting at the end of an epoch of 6.
TEST(Strategy, CheckpointsHoldEachRanksOwnParameters) {
  for (const auto kind : {StrategyKind::local_sgd, StrategyKind::diloco}) {
    const StrategyOptions strategy{.kind = kind, .period = 5};
    const auto whole = run_adam(options_for("whole", strategy));
    auto options = options_for("own", strategy);
    options.checkpoint.every_steps = 3;
    options.checkpoint.keep = 9;
    options.resume = Resume::fresh;
    EXPECT_EQ(run_adam(options, 13).summary.steps, 17);  // requested in step 14, received when the ranks meet
    const auto last = options.folder() / "checkpoints" / "step_00000017";
    ASSERT_TRUE(std::filesystem::exists(last));
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(last);
    world().barrier();
    options.resume = Resume::resume;
    EXPECT_TRUE(bitwise_equal(run_adam(options).parameters, whole.parameters));  // from step 15
  }
}

// Slices, and sums in a different order: as in equivalence_test.cpp of data_parallel.
TEST(Strategy, ShardedIsData) {
  const auto data = run_adam(options_for("data", {}));
  for (const auto& [name, strategy] : strategies()) {
    if (strategy.kind == StrategyKind::sharded || strategy.kind == StrategyKind::fully_sharded)
      expect_close(run_adam(options_for(name, strategy)), data, 1e-12, name);
  }
}

/// Clips in a hook instead of by the option.
struct Clip : tw::train::Hook {
  void on_backward(tw::train::State& state) override {
    const double norm = state.clip_gradient_norm(0.05);
    if (norm > 0.05) ++clipped;
  }
  int clipped = 0;
};

// axes_test.cpp checks that this is the norm of one process.
TEST(Strategy, ClipsByTheNormOfTheWholeModel) {
  const auto clipped = [](const std::string& name, const StrategyOptions& strategy) {
    auto options = options_for("clipped_" + name, strategy);
    options.max_gradient_norm = 0.05;
    return run_adam(options);
  };
  const auto data = clipped("data", {});
  for (const auto& [name, strategy] : strategies()) {
    if (strategy.kind != StrategyKind::data && strategy.kind != StrategyKind::sharded && strategy.kind != StrategyKind::fully_sharded) continue;
    if (strategy.compression == CompressionKind::none) expect_close(clipped(name, strategy), data, 1e-12, name);
    const auto model = make_regressor(0.2);
    torch::optim::Adam optimizer(model.tensors(), torch::optim::AdamOptions(0.01));
    const auto samples = squares(31);
    tw::train::Trainer trainer(world(), model, optimizer, tw::train::regression(), samples, samples, options_for("hook", strategy));
    Clip clip;
    trainer.add(clip);
    const auto summary = trainer.run();
    EXPECT_GT(clip.clipped, 9) << name;
    if (strategy.compression == CompressionKind::none) expect_close({copies(model), {}, summary}, data, 1e-12, name + ", by a hook");
  }
}

// The mean of parameters that each made one step of plain gradient descent is one step along the mean gradient.
TEST(Strategy, LocalSgdOfPeriodOneIsData) {
  const auto rule = torch::optim::SGDOptions(0.1);
  const auto data = run<torch::optim::SGD>(world(), options_for("data", {}), rule);
  expect_close(run<torch::optim::SGD>(world(), options_for("local", {.kind = StrategyKind::local_sgd, .period = 1}), rule), data, 1e-12, "local_sgd");
  const StrategyOptions plain{.kind = StrategyKind::diloco, .period = 1, .outer_learning_rate = 1, .outer_momentum = 0};
  expect_close(run<torch::optim::SGD>(world(), options_for("diloco", plain), rule), data, 1e-12, "diloco");
}

TEST(Strategy, ARunMayChangeItsStrategy) {
  const auto whole = run_adam(options_for("data", {}));
  for (const auto& [before, after] : std::vector<std::pair<StrategyKind, StrategyKind>>{{StrategyKind::data, StrategyKind::sharded},
                                                                                        {StrategyKind::sharded, StrategyKind::data},
                                                                                        {StrategyKind::data, StrategyKind::fully_sharded},
                                                                                        {StrategyKind::fully_sharded, StrategyKind::sharded}}) {
    auto options = options_for("changes", {.kind = before});
    options.checkpoint.every_epochs = 1;
    options.resume = Resume::fresh;
    (void)run_adam(options, 8);
    options.strategy.kind = after;
    options.resume = Resume::resume;
    expect_close(run_adam(options), whole, 1e-12, "changed");
  }
}

TEST(Strategy, CountsWhatIsCommunicated) {
  const auto bytes = [](const StrategyOptions& strategy) { return run_adam(options_for("bytes", strategy)).summary.bytes_per_step; };
  const double data = bytes({});
  EXPECT_GE(data, 8 * (4 * 16 + 16 + 16 + 1));
  EXPECT_NEAR(bytes({.kind = StrategyKind::local_sgd, .period = 6}), data / 6, 0.02 * data);  // an epoch has 6 steps
  EXPECT_NEAR(bytes({.compression = CompressionKind::float16}), data / 4, 0.01 * data);       // of float64
  EXPECT_LE(bytes({.compression = CompressionKind::top_k, .top_k_fraction = 0.1}), 0.2 * data);
}

// A rank with a non-finite loss informs the others when they next meet. Then the run ends and reports why.
TEST(Strategy, TroubleIsHeardWhenRanksMeet) {
  struct Poison : tw::train::Hook {
    void on_sample(tw::train::State& state) override {
      if (state.step == 1 && state.batch.size() > 0 && world().rank() == 0) state.batch.inputs.fill_(std::numeric_limits<double>::quiet_NaN());
    }
  };
  for (const auto& [name, strategy] : strategies()) {
    const auto model = make_regressor(0);
    torch::optim::Adam optimizer(model.tensors(), torch::optim::AdamOptions(0.01));
    const auto data = squares(31);
    tw::train::Trainer trainer(world(), model, optimizer, tw::train::regression(), data, data, options_for("poisoned", strategy));
    Poison poison;
    trainer.add(poison);
    const auto summary = trainer.run();
    EXPECT_NE(summary.stopped_because.find("rank 0: the loss is nan"), std::string::npos) << name << ": " << summary.stopped_because;
    EXPECT_LE(summary.steps, 4) << name;
    for (const at::Tensor& parameter : copies(model)) EXPECT_TRUE(parameter.isfinite().all().item<bool>()) << name;
  }
}

TEST(Strategy, RefusesWhatDoesNotGoTogether) {
  for (const StrategyOptions& wrong :
       {StrategyOptions{.kind = StrategyKind::sharded, .compression = CompressionKind::top_k},
        StrategyOptions{.kind = StrategyKind::local_sgd, .compression = CompressionKind::float16}, StrategyOptions{.release_gradients = true},
        StrategyOptions{.kind = StrategyKind::diloco, .period = 0}, StrategyOptions{.top_k_fraction = 2}, StrategyOptions{.power_sgd_rank = 0}}) {
    EXPECT_THROW(tw::train::Options{.strategy = wrong}.validate(), tw::ContractError);
  }
}

}  // namespace strategy_test
