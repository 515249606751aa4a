// SPDX-License-Identifier: Apache-2.0
// Prints the milliseconds of a training step with DataParallel or FullySharded. compare.sh runs it in turns with other programs.
#include "../measure.hpp"
#include "../trainees.hpp"

#include <string_view>
#include <tw/data_parallel.hpp>

namespace {

/// Prints the median of ten rounds.
void time_steps(const tw::Communicator& comm, int steps, const std::function<void()>& step) {
  std::vector<double> ms;
  for (int round = -3; round < 10; ++round) {
    comm.barrier();
    const tw::Stopwatch watch;
    for (int i = 0; i < steps; ++i) step();
    if (round >= 0) ms.push_back(1e3 * watch.elapsed().count() / steps);
  }
  if (comm.rank() == 0) std::cout << tw::benchmark::percentile(ms, 0.5) << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  TW_EXPECTS(argc == 3, "bench_peers_ours CASE data|fully_sharded");
  torch::set_num_threads(1);
  const tw::benchmark::TraineeCase of = tw::benchmark::trainee(argv[1]);
  tw::benchmark::Trainee trainee = of.make();
  if (std::string_view(argv[2]) == "data") {
    const tw::DataParallel parallel(comm, trainee.module(), {.reduction = tw::Reduction::mean});
    time_steps(comm, of.steps, [&] { trainee.step(); });
  } else {
    const tw::FullySharded sharded(comm, trainee.module(), {.reduction = tw::Reduction::mean});
    torch::optim::SGD sgd(sharded.slices(), 1e-3);
    time_steps(comm, of.steps, [&] {
      sgd.zero_grad();
      trainee.backward();
      sgd.step();
    });
  }
}
