// SPDX-License-Identifier: Apache-2.0
// Twenty modules at random, cut at random. `make accept ONLY=graph` has two thousand.
#include "mpi_test.hpp"
#include "random_module.hpp"

namespace tw::pipeline {
namespace random_modules_test {

TEST(RandomModules, equalOneProcess) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CutTrial trial(testing::world(), [&] { return random_trainee(seed); }, seed);
    const std::string difference = trial.run();
    EXPECT_EQ(difference, "") << trial.what();
  }
}

}  // namespace random_modules_test
}  // namespace tw::pipeline
