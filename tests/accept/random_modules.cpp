// SPDX-License-Identifier: Apache-2.0
// Random modules, captured, cut at random and trained by pipelines, and trained by replicas with and without sharding, compared with one process.
// Run: mpirun -n RANKS accept_random_modules [SEEDS] [FIRST]; prints each module that differs, and exits with 1 if any does
#include <cstdio>
#include <cstdlib>
#include <tw/comm/objects.hpp>
#include <tw/mpi/environment.hpp>

#include "random_module.hpp"
#include "replica_trial.hpp"

namespace {

using tw::pipeline::Trainee;

/// The difference that `run` returns, or the message of what it throws.
std::string problem_of(const std::function<std::string()>& run) {
  try {
    return run();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  tw::Environment mpi(argc, argv);
  const tw::Communicator world = mpi.world().dup();
  int64_t failed = 0;
  int64_t refused = 0;
  int64_t replicated = 0;
  // Collective. @return whether no rank has a problem
  const auto is_right = [&](const std::string& what, const std::string& problem) {
    std::string all;
    for (const std::string& each : tw::allgather_strings(world, problem)) all += each.empty() ? "" : "\n  " + each;
    if (!all.empty() && world.rank() == 0) std::printf("%s%s\n", what.c_str(), all.c_str());
    return all.empty();
  };
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const auto make = [&] { return tw::pipeline::random_trainee(seed); };
    const Trainee trainee = make();
    tw::pipeline::CutTrial trial(world, make, seed);
    const std::string problem = problem_of([&] { return trial.run(); });
    bool right = is_right(trial.what(), problem);
    refused += static_cast<int64_t>(!trainee.refusal.empty());
    if (!trainee.draws && !trainee.splits_matter && trainee.refusal.empty()) {
      ++replicated;
      for (const bool sharded : {false, true}) {
        const tw::pipeline::ReplicaTrial replicas(world, make, sharded);
        const std::string found = problem_of([&] { return replicas.run(); });
        right = is_right(trainee.name + (sharded ? ", fully sharded" : ", data parallel"), found) && right;
      }
    }
    failed += static_cast<int64_t>(!right);
  }
  if (world.rank() == 0) {
    std::printf("%llu modules at random on %d ranks, %lld of them to be refused, %lld trained by replicas too: %lld differ from one process\n",
                static_cast<unsigned long long>(seeds), world.size(), static_cast<long long>(refused), static_cast<long long>(replicated),
                static_cast<long long>(failed));
  }
  return failed == 0 ? 0 : 1;
}
