// SPDX-License-Identifier: Apache-2.0
// Twenty modules at random, cut at random. `make accept ONLY=graph` has two thousand.
#include "mpi_test.hpp"
#include "random_module.hpp"

namespace tw::pipeline {
namespace random_modules_test {

Trainee placed_trainee(uint64_t seed) {
  Trainee made = random_trainee(seed);
  testing::place_module(made.module);
  for (const std::vector<torch::Tensor>& batch : {made.inputs, made.targets}) std::ranges::for_each(batch, testing::place);
  return made;
}

TEST(RandomModules, equalOneProcess) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CutTrial trial(testing::world(), [&] { return placed_trainee(seed); }, seed);
    const std::string difference = trial.run();
    EXPECT_EQ(difference, "") << trial.what();
  }
}

}  // namespace random_modules_test
}  // namespace tw::pipeline
