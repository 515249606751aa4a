// SPDX-License-Identifier: Apache-2.0
// A run on a device against the same on the CPU, whose operators the simulated accelerator uses, and what its host waits for.
#include "regression_run.hpp"

#include <accelerator.hpp>

#include "reading.hpp"

namespace device_training_test {

using tw::testing::Outcome;
using tw::testing::world;
using tw::train::CompressionKind;
using tw::train::StrategyKind;
using tw::train::StrategyOptions;

TEST(Reading, IsOfWhatIsStillToBeComputed) {
  const at::Tensor late = torch::zeros({2}).to(tw::testing::device());
  late.copy_(torch::full({2}, 3.0).pin_memory(), /*non_blocking=*/true);
  const tw::train::Reading sum(late.sum());
  late.zero_();  // is later
  EXPECT_EQ(sum.value(), 6);
}

/// Counts what the host waits for from one update to the next, and keeps what the epochs came to.
struct Watch : tw::train::Hook {
  void on_update(tw::train::State& /*state*/) override {
    const int64_t now = tw::testing::accelerator::host_waits();
    if (before > 0) most = std::max(most, now - before);
    before = now;
  }
  void on_end_epoch(tw::train::State& /*state*/, const tw::train::EpochReport& report) override {
    before = 0;
    losses.push_back(report.train_loss);
  }
  int64_t before = 0;
  int64_t most = 0;
  std::vector<double> losses;
};

Outcome run(const tw::train::Options& options, bool on_device, Watch& watch) {
  const auto model = tw::testing::make_regressor(0.2, on_device);
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = tw::testing::squares(31);
  tw::train::Trainer trainer(world(), model, adam, tw::train::regression(), data, data, options);
  trainer.add(watch);
  const auto summary = trainer.run();
  std::vector<at::Tensor> parameters;
  for (const at::Tensor& parameter : tw::testing::copies(model)) parameters.push_back(parameter.cpu());
  return {parameters, {}, summary};
}

const std::vector<StrategyOptions> strategies{{},
                                              {.compression = CompressionKind::power_sgd},
                                              {.kind = StrategyKind::sharded},
                                              {.kind = StrategyKind::sharded, .release_gradients = true},
                                              {.kind = StrategyKind::local_sgd, .period = 4},
                                              {.kind = StrategyKind::diloco, .period = 4}};

// The same operators on the same numbers, in an order of summation that is the same where there are two ranks; 18 steps of Adam keep a last bit
// small.
TEST(DeviceTraining, EqualsTheCpus) {
  for (const StrategyOptions& strategy : strategies) {
    for (const int64_t accumulation : {1, 2}) {
      auto options = tw::testing::options_for("device", strategy);
      options.accumulation = accumulation;
      Watch expected_watch;
      Watch watch;
      const Outcome expected = run(options, /*on_device=*/false, expected_watch);
      const Outcome found = run(options, /*on_device=*/true, watch);
      const std::string what = tw::concat(static_cast<int>(strategy.kind), " of ", accumulation);
      tw::testing::expect_close(found, expected, 1e-12, what);
      ASSERT_EQ(found.summary.test.size(), expected.summary.test.size());
      for (size_t i = 0; i < found.summary.test.size(); ++i)
        EXPECT_NEAR(found.summary.test[i].second, expected.summary.test[i].second, 1e-12) << what;
      for (size_t i = 0; i < watch.losses.size(); ++i) EXPECT_NEAR(watch.losses[i], expected_watch.losses[i], 1e-12) << what;
    }
  }
}

// Whether gradients are finite decides whether there is an update. What the loss was comes along.
TEST(DeviceTraining, TheHostWaitsOnceAnUpdate) {
  for (const StrategyOptions& strategy : strategies) {
    for (const int64_t workers : {0, 2}) {
      auto options = tw::testing::options_for("waits", strategy);
      options.loader_workers = workers;
      Watch watch;
      (void)run(options, /*on_device=*/true, watch);
      EXPECT_EQ(watch.most, 1) << static_cast<int>(strategy.kind) << " with " << workers;
    }
  }
}

}  // namespace device_training_test
