// SPDX-License-Identifier: Apache-2.0
// best.safetensors: which run it belongs to, and that it is complete.
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <set>
#include <tw/base/process.hpp>

#include "regression_run.hpp"

namespace best_model_test {

std::mutex synced_mutex;
std::set<std::string> synced;  // names of all files that this process has synced

}  // namespace best_model_test

// Replaces the C library's, which it calls.
extern "C" int fsync(int fd) {
  std::error_code code;
  const auto path = std::filesystem::read_symlink(tw::concat("/proc/self/fd/", fd), code);
  const std::lock_guard lock(best_model_test::synced_mutex);
  best_model_test::synced.insert(path.filename());
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace best_model_test {

using tw::testing::never;
using tw::testing::run;
using tw::testing::world;
using tw::train::Resume;

tw::train::Options fresh(const std::string& name) {
  auto options = tw::testing::three_epochs(name);
  options.checkpoint.every_epochs = 1;
  options.resume = Resume::fresh;
  return options;
}

TEST(BestModel, OfTheRunBeforeIsGone) {
  auto options = fresh("best");
  const auto rule = torch::optim::AdamOptions(0.01);
  run<torch::optim::Adam>(world(), options, rule, never);
  world().barrier();
  EXPECT_TRUE(std::filesystem::exists(options.folder() / "best.safetensors"));
  world().barrier();
  options.epochs = 0;  // nothing is evaluated
  run<torch::optim::Adam>(world(), options, rule, never);
  world().barrier();
  EXPECT_FALSE(std::filesystem::exists(options.folder() / "best.safetensors"));
}

// A job killed while writing the best model leaves a partial file.
TEST(BestModel, PartsOfAKilledRunAreRemoved) {
  auto options = fresh("left");
  const auto left = options.folder() / "best.safetensors.partial1";
  for (const Resume how : {Resume::fresh, Resume::resume}) {
    if (world().rank() == 0) {
      std::filesystem::create_directories(options.folder());
      std::ofstream(left) << "half";
    }
    world().barrier();
    options.resume = how;
    options.epochs = 0;  // nothing is evaluated
    run<torch::optim::Adam>(world(), options, torch::optim::AdamOptions(0.01), never);
    world().barrier();
    EXPECT_FALSE(std::filesystem::exists(left));
    world().barrier();
  }
}

// Otherwise a crash of the node could leave its name without its content.
TEST(BestModel, IsSyncedBeforeItGetsItsName) {
  auto options = fresh("synced");
  options.epochs = 1;
  {
    const std::lock_guard lock(synced_mutex);
    synced.clear();
  }
  run<torch::optim::Adam>(world(), options, torch::optim::AdamOptions(0.01), never);
  const std::lock_guard lock(synced_mutex);
  EXPECT_EQ(synced.contains(tw::concat("best.safetensors.partial", tw::process_identity())), world().rank() == 0);
  EXPECT_EQ(synced.contains(tw::concat("rank_000", world().rank(), ".safetensors")), true);
}

}  // namespace best_model_test
