// SPDX-License-Identifier: Apache-2.0
// Training whose checkpoints find no space on disk, or no folder.
#include "full_disk.hpp"
#include "regression_run.hpp"

#include <fstream>
#include <functional>

namespace full_disk_test {

using tw::testing::FullDisk;
using tw::testing::make_regressor;
using tw::testing::squares;
using tw::testing::world;
using tw::train::Trainer;

tw::train::Options fresh(const std::string& name) {
  auto options = tw::testing::three_epochs(name);
  options.checkpoint.every_epochs = 1;
  options.resume = tw::train::Resume::fresh;
  return options;
}

/// A disk that is full from step 3 to step 7, on rank 0. The checkpoint of step 4 is abandoned when that of step 6 begins.
struct FullForAWhile : tw::train::Hook {
  void on_update(tw::train::State& state) override {
    if (state.comm.rank() == 0 && state.step == 3) full.emplace(1);
    if (state.step == 7) full.reset();
  }
  std::optional<FullDisk> full;
};

TEST(FullDisk, TrainingGoesOn) {
  auto options = fresh("full");
  options.checkpoint.every_steps = 2;
  options.checkpoint.keep = 10;
  const auto model = make_regressor(0);
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = squares(31);
  Trainer trainer(world(), model, adam, tw::train::regression(), data, data, options, &data);
  FullForAWhile disk;
  trainer.add(disk);
  EXPECT_TRUE(trainer.run().finished);
  const auto folder = options.folder() / "checkpoints";
  EXPECT_FALSE(std::filesystem::exists(folder / "step_00000004"));  // that of step 2 may or may not have been written before
  EXPECT_TRUE(std::filesystem::exists(folder / "step_00000018"));
}

/// A disk that is full from the last step on, on rank 0.
struct FullAtTheEnd : tw::train::Hook {
  void on_update(tw::train::State& state) override {
    if (state.comm.rank() == 0 && state.step == 18) full.emplace(1);
  }
  void on_end(tw::train::State&, const tw::train::Summary& summary) override {
    full.reset();
    steps = summary.steps;
  }
  std::optional<FullDisk> full;
  int64_t steps = 0;
};

TEST(FullDisk, ARunWhoseLastCheckpointIsNotWrittenIsReported) {
  auto options = fresh("full_at_the_end");
  const auto model = make_regressor(0);
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = squares(31);
  Trainer trainer(world(), model, adam, tw::train::regression(), data, data, options, &data);
  FullAtTheEnd disk;
  trainer.add(disk);
  EXPECT_THROW(trainer.run(), tw::Error);
  EXPECT_EQ(disk.steps, 18);
}

/// Calls `call` on rank 0 after an update, and lets the other ranks wait for it.
struct AfterUpdate : tw::train::Hook {
  AfterUpdate(int64_t at, std::function<void()> on_rank_0) : step(at), call(std::move(on_rank_0)) {}
  void on_update(tw::train::State& state) override {
    if (state.step != step) return;
    if (state.comm.rank() == 0) call();
    state.comm.barrier();
  }
  void on_end(tw::train::State&, const tw::train::Summary& summary) override { steps = summary.steps; }
  int64_t step;
  std::function<void()> call;
  int64_t steps = 0;
};

tw::train::Summary train_with(AfterUpdate& hook, const tw::train::Options& options) {
  const auto model = make_regressor(0);
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = squares(31);
  Trainer trainer(world(), model, adam, tw::train::regression(), data, data, options, &data);
  trainer.add(hook);
  return trainer.run();
}

// The first evaluation, which is the best so far, finds no folder of checkpoints.
TEST(NoFolder, OfCheckpointsIsMadeAgain) {
  const auto options = fresh("no_checkpoints");
  AfterUpdate remove(5, [&] { std::filesystem::remove_all(options.folder() / "checkpoints"); });
  EXPECT_TRUE(train_with(remove, options).finished);
  EXPECT_TRUE(std::filesystem::exists(options.folder() / "checkpoints" / "step_00000018"));
  EXPECT_TRUE(std::filesystem::exists(options.folder() / "best.safetensors"));
}

TEST(NoFolder, AtTheEndIsReportedAfterTheRun) {
  const auto options = fresh("no_folder");
  AfterUpdate replace(18, [&] {
    std::filesystem::remove_all(options.folder());
    std::ofstream(options.folder()) << "not a folder";
  });
  EXPECT_THROW(train_with(replace, options), tw::Error);
  EXPECT_EQ(replace.steps, 18);
  world().barrier();
  if (world().rank() == 0) std::filesystem::remove(options.folder());
}

}  // namespace full_disk_test
