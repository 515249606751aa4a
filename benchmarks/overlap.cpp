// SPDX-License-Identifier: Apache-2.0
// bench_overlap: an all-reduce of 16 MiB, overlapped with the same duration of computation. Made for two hosts (tests/cluster/hosts.sh): inside a
// node all cores compute, and overlap gains nothing.
#include "measure.hpp"

#include <torch/torch.h>

#include <tw/comm.hpp>

namespace {

using tw::Seconds;

/// Work in slices of about half a millisecond, like the layers of a network.
class Computation {
 public:
  /// Computes for `duration`. @return the number of slices
  int run_for(Seconds duration) {
    const tw::Stopwatch watch;
    int slices = 0;
    for (; watch.elapsed() < duration; ++slices) slice();
    return slices;
  }
  void run(int slices, const std::function<void()>& between) {
    for (; slices > 0; --slices) {
      slice();
      between();
    }
  }

 private:
  void slice() { torch::mm_out(result_, a_, b_); }
  at::Tensor a_ = torch::rand({192, 192});
  at::Tensor b_ = torch::rand({192, 192});
  at::Tensor result_ = torch::empty({192, 192});
};

Seconds slowest(const tw::Communicator& comm, Seconds mine) {
  double seconds = mine.count();
  tw::mpi::allreduce(comm, {&seconds, 1, tw::ElementType::float64}, tw::ReduceOp::max);
  return Seconds(seconds);
}

template <class Call>
Seconds timed(const tw::Communicator& comm, Call call) {
  comm.barrier();
  const tw::Stopwatch watch;
  call();
  return slowest(comm, watch.elapsed());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string driver = argc > 1 ? argv[1] : "inlined";
  const std::string link = argc > 2 ? argv[2] : "link";
  const bool by_thread = driver == "thread";
  const tw::Environment mpi(argc, argv, {.progress = by_thread ? tw::ProgressDriver::thread : tw::ProgressDriver::inlined});
  const tw::Communicator comm = mpi.world().dup();
  torch::set_num_threads(1);
  const at::Tensor data = torch::zeros({4 << 20});
  Computation computation;

  constexpr int rounds = 11;  // the first one warms up
  std::vector<double> apart;
  std::vector<double> together;
  std::vector<double> exposed;
  for (int round = 0; round < rounds; ++round) {
    const Seconds alone = timed(comm, [&] { tw::allreduce(comm, data, tw::ReduceOp::sum); });
    int slices = 0;
    const Seconds computing = timed(comm, [&] { slices = computation.run_for(alone); });
    const Seconds both = timed(comm, [&] {
      tw::Work work = tw::iallreduce(comm, data, tw::ReduceOp::sum);
      computation.run(slices, [&] {
        if (!by_thread) tw::progress(comm);
      });
      work.wait();
    });
    if (round == 0) continue;
    apart.push_back(1e3 * (alone + computing).count());
    together.push_back(1e3 * both.count());
    exposed.push_back((both - computing) / alone);
  }
  if (comm.rank() != 0) return 0;
  using tw::benchmark::percentile;
  std::cout << nlohmann::ordered_json{{"benchmark", "comm/overlap"},
                                      {"case", tw::concat("16MiB_", link, "_", driver)},
                                      {"ranks", comm.size()},
                                      {"baseline", "one_after_the_other"},
                                      {"baseline_ms", percentile(apart, 0.5)},
                                      {"ours_ms", percentile(together, 0.5)},
                                      {"ratio", percentile(apart, 0.5) / percentile(together, 0.5)},
                                      {"rounds", rounds - 1},
                                      {"spread", (percentile(together, 0.9) - percentile(together, 0.1)) / percentile(together, 0.5)},
                                      {"exposed", percentile(exposed, 0.5)}}
            << std::endl;
}
