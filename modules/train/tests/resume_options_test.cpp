// SPDX-License-Identifier: Apache-2.0
// Resuming a run with other options, another optimizer, or another number of ranks.
#include "message_of.hpp"
#include "regression_run.hpp"

#include <functional>

namespace resume_options_test {

using tw::testing::never;
using tw::testing::Outcome;
using tw::testing::run;
using tw::testing::world;
using tw::train::Resume;

tw::train::Options options_for(const std::string& name) {
  auto options = tw::testing::three_epochs(name);
  options.checkpoint.every_epochs = 1;
  return options;
}

// A loss is not compared with an accuracy: the best value so far is forgotten.
TEST(Resume, JudgesAnewByAnotherWatch) {
  auto options = options_for("watch");
  options.resume = Resume::fresh;
  options.early_stopping.watch = "mae";
  const auto rule = torch::optim::AdamOptions(0.01);
  const auto first = run<torch::optim::Adam>(world(), options, rule, 13);
  ASSERT_GT(first.summary.best_epoch, 0);
  options.resume = Resume::resume;
  options.early_stopping.watch = "loss";
  testing::internal::CaptureStderr();
  const auto second = run<torch::optim::Adam>(world(), options, rule, never);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(second.summary.best_epoch, 3);
  EXPECT_EQ(second.summary.best, tw::train::figure(second.summary.validation, "loss"));
  if (world().rank() != 0) return;
  const std::string folder = (options.folder() / "checkpoints").string();
  EXPECT_NE(lines.find("resumed from the checkpoint of step 14, epoch 3, in " + folder), std::string::npos) << lines;
  EXPECT_NE(lines.find("early_stopping.watch is loss now, and was mae"), std::string::npos) << lines;
}

// If a resumed run ignores an option, it throws or logs a message.
TEST(Resume, KeepsItsGlobalBatchAndItsOptimizer) {
  auto options = options_for("keeps");
  options.resume = Resume::fresh;
  run<torch::optim::Adam>(world(), options, torch::optim::AdamOptions(0.01), 3);
  options.resume = Resume::resume;
  const auto adamw = [&] { run<torch::optim::AdamW>(world(), options, torch::optim::AdamWOptions(0.01), never); };
  EXPECT_NE(tw::testing::message_of(adamw).find("began with the optimizer torch::optim::Adam, not torch::optim::AdamW"), std::string::npos)
      << tw::testing::message_of(adamw);
  auto other = options;
  other.global_batch = 8;
  const auto larger = [&] { run<torch::optim::Adam>(world(), other, torch::optim::AdamOptions(0.01), never); };
  EXPECT_NE(tw::testing::message_of(larger).find("began with a global batch of 6 samples"), std::string::npos) << tw::testing::message_of(larger);
  other.global_batch = 0;
  other.batch_size = 50;
  testing::internal::CaptureStderr();
  EXPECT_EQ(run<torch::optim::Adam>(world(), other, torch::optim::AdamOptions(0.01), never).summary.global_batch, 6);
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.find("keeps its global batch of 6 samples; batch_size = 50 would make") != std::string::npos, world().rank() == 0) << lines;
}

/// A part of a run with one of LibTorch's optimizers on `comm`, until `stop_at`.
using Part =
    std::function<Outcome(const tw::Communicator& comm, const tw::train::Options& options, int64_t stop_at, const std::vector<tw::MeshAxis>& axes)>;

template <class Optimizer, class OptimizerOptions>
Part part_of(OptimizerOptions rule) {
  return [rule](const tw::Communicator& comm, const tw::train::Options& options, int64_t stop_at, const std::vector<tw::MeshAxis>& axes) {
    return run<Optimizer>(comm, options, rule, stop_at, /*dropout=*/0, axes);
  };
}

// All optimizers and strategies: started on fewer ranks, resumed on all.
TEST(Resume, EveryOptimizerAndStrategyOnOtherNumbersOfRanks) {
  using tw::testing::along_shard;
  using tw::testing::Way;
  using tw::train::Meeting;
  const std::vector<std::pair<std::string, Part>> optimizers{
      {"sgd", part_of<torch::optim::SGD>(torch::optim::SGDOptions(0.05).momentum(0.9))},
      {"adam", part_of<torch::optim::Adam>(torch::optim::AdamOptions(0.01))},
      {"adamw", part_of<torch::optim::AdamW>(torch::optim::AdamWOptions(0.01))},
      {"rmsprop", part_of<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.01).momentum(0.5))},
      {"adagrad", part_of<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.05))}};
  const std::vector<Way> ways{{.name = "every_step"},
                              {.name = "optimizer", .axes = along_shard, .shard = {.what = tw::train::Sharded::optimizer}},
                              {.name = "parameters", .axes = along_shard, .shard = {.unit_bytes = 200}},
                              {.name = "local_sgd", .replicas = {.meet = Meeting::local_sgd, .period = 3}},
                              {.name = "diloco", .replicas = {.meet = Meeting::diloco, .period = 3}},
                              {.name = "servers", .replicas = {.meet = Meeting::parameter_server, .period = 3}}};
  for (const auto& [name, part] : optimizers) {
    auto undisturbed = options_for("table_whole");
    undisturbed.epochs = 2;
    undisturbed.resume = Resume::fresh;
    const Outcome whole = part(world(), undisturbed, never, Way().axes);
    for (const Way& way : ways) {
      auto options = undisturbed;
      options.name = tw::concat("table_", name, '_', way.name, "_of_", world().size());
      options.shard = way.shard;
      options.replicas = way.replicas;
      const int fewer = std::max(1, world().size() - 1);
      const tw::Communicator some = world().split(world().rank() < fewer ? 0 : 1, 0);
      if (world().rank() < fewer) part(some, options, 2, way.axes);
      world().barrier();
      options.resume = Resume::resume;
      const Outcome found = part(world(), options, never, way.axes);
      EXPECT_TRUE(found.summary.finished) << options.name;
      EXPECT_EQ(found.summary.steps, 12) << options.name;
      EXPECT_TRUE(std::isfinite(tw::train::figure(found.summary.test, "loss"))) << options.name;
      const bool is_exact = way.replicas.meet == Meeting::every_step;
      // Sums in a different order, some 1e-16 each, which the optimizers' quotients may amplify where gradients are small.
      if (is_exact) tw::testing::expect_close(found, whole, 1e-9, options.name);
    }
  }
}

}  // namespace resume_options_test
