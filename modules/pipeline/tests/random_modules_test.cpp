// SPDX-License-Identifier: Apache-2.0
// Sixty random modules, cut at random; five on an accelerator. `make accept ONLY=graph` runs two thousand.
#include "mpi_test.hpp"

#include <numeric>

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
  std::vector<uint64_t> seeds(60);
  std::iota(seeds.begin(), seeds.end(), uint64_t{0});
  std::erase_if(seeds, [](uint64_t seed) { return seed % 2 != static_cast<uint64_t>(testing::world().size()) % 2; });
  if (!testing::device().is_cpu()) {  // the simulated accelerator is slow; and gradients in forward() are the work of another thread there
    std::erase_if(seeds, [](uint64_t seed) { return random_trainee(seed).name.find("force") != std::string::npos; });
    seeds.resize(5);
  }
  for (const uint64_t seed : seeds) {
    CutTrial trial(testing::world(), [&] { return placed_trainee(seed); }, seed);
    const std::string difference = trial.run();
    EXPECT_EQ(difference, "") << trial.what();
  }
}

}  // namespace random_modules_test
}  // namespace tw::pipeline
