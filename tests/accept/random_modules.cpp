// SPDX-License-Identifier: Apache-2.0
// Modules at random, captured, cut at random and trained by pipelines, against one process.
// Run: mpirun -n RANKS accept_random_modules [SEEDS] [FIRST]; prints each that differs, and ends with 1 where one does
#include <cstdio>
#include <cstdlib>
#include <tw/comm/objects.hpp>
#include <tw/mpi/environment.hpp>

#include "random_module.hpp"

int main(int argc, char** argv) {
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  tw::Environment mpi(argc, argv);
  const tw::Communicator world = mpi.world().dup();
  int64_t failed = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    tw::pipeline::CutTrial trial(world, [&] { return tw::pipeline::random_trainee(seed); }, seed);
    std::string problem;
    try {
      problem = trial.run();
    } catch (const std::exception& error) {
      problem = error.what();
    }
    std::string all;
    for (const std::string& each : tw::allgather_strings(world, problem)) all += each.empty() ? "" : "\n  " + each;
    if (all.empty()) continue;
    ++failed;
    if (world.rank() == 0) std::printf("%s%s\n", trial.what().c_str(), all.c_str());
  }
  if (world.rank() == 0) {
    std::printf("%llu modules at random on %d ranks: %lld differ from one process\n", static_cast<unsigned long long>(seeds), world.size(),
                static_cast<long long>(failed));
  }
  return failed == 0 ? 0 : 1;
}
