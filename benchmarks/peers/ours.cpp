// SPDX-License-Identifier: Apache-2.0
// Prints the milliseconds of a training step with DataParallel, for compare.sh, which lets it take turns with other programs.
#include "../measure.hpp"
#include "../trainees.hpp"

#include <tw/data_parallel.hpp>

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  torch::set_num_threads(1);
  for (const auto& [name, steps, make] : tw::benchmark::trainees()) {
    if (argc < 2 || name != argv[1]) continue;
    tw::benchmark::Trainee trainee = make();
    const tw::DataParallel parallel(comm, trainee.module(), {.reduction = tw::Reduction::mean});
    std::vector<double> ms;
    for (int round = -3; round < 10; ++round) {
      comm.barrier();
      const tw::Stopwatch watch;
      for (int i = 0; i < steps; ++i) trainee.step();
      if (round >= 0) ms.push_back(1e3 * watch.elapsed().count() / steps);
    }
    if (comm.rank() == 0) std::cout << tw::benchmark::percentile(ms, 0.5) << std::endl;
  }
}
