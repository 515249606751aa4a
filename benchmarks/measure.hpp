// SPDX-License-Identifier: Apache-2.0
// Two contestants take turns on the same cores, each in processes of its own: the heap and the caches of one must not serve the other.
#pragma once
#include <ATen/Parallel.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <tw/base/clock.hpp>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <vector>

namespace tw::benchmark {

/// Half of the ranks of a run: the first half is the baseline, the second half is ours.
class Contest {
 public:
  /// Collective. @param world an even number of ranks; borrowed.
  explicit Contest(const Communicator& world) : world_(world), comm_(world.split(2 * world.rank() / world.size(), world.rank())) {
    TW_EXPECTS(world.size() % 2 == 0, "a contest needs an even number of ranks, got ", world.size());
  }

  const Communicator& world() const noexcept { return world_; }
  /// The ranks of this contestant.
  const Communicator& comm() const noexcept { return comm_; }
  bool is_ours() const noexcept { return 2 * world_.rank() >= world_.size(); }

 private:
  const Communicator& world_;
  Communicator comm_;
};

/// A barrier that leaves the cores to those who still work: it looks every 0.2 ms.
inline void sleeping_barrier(const Communicator& comm) {
  Work work = mpi::start(comm, {.collective = Collective::barrier}, mpi::barrier_transfer(comm));
  while (!work.test()) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

/// Value below which `share` of `values` lies, by linear interpolation.
inline double percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

struct Case {
  std::string benchmark;  ///< such as "data_parallel/step"
  std::string name;       ///< such as "lenet"
  std::string baseline;   ///< such as "mpi_per_parameter"
  int rounds = 20;
  int steps = 10;                   ///< calls in a round
  std::function<void()> step = {};  ///< this contestant's
  /// Not timed, before every step: fresh data for a communication, and a barrier. Without it the steps of a round follow each other.
  std::function<void()> prepare = {};
  double units = 1;  ///< what one call of this contestant does, in common units; times are per unit
};

/// One round of this contestant.
inline Seconds time_round(const Contest& contest, const Case& of) {
  contest.comm().barrier();
  if (!of.prepare) {
    const Stopwatch watch;
    for (int i = 0; i < of.steps; ++i) of.step();
    contest.comm().barrier();
    return watch.elapsed();
  }
  Seconds total{0};
  for (int i = 0; i < of.steps; ++i) {
    of.prepare();
    const Stopwatch watch;
    of.step();
    total += watch.elapsed();
  }
  return total;
}

/// Lets the contestants take turns, round by round, after a warm-up of three rounds each, and prints one JSON line on the world's rank 0.
/// Collective over the world.
inline void compare(const Contest& contest, const Case& of) {
  constexpr int warm_up = 3;
  const auto rounds = static_cast<size_t>(of.rounds);
  std::vector<double> times(2 * rounds);  // ms per unit: the baseline's rounds, then ours
  for (int round = -warm_up; round < of.rounds; ++round) {
    for (const bool second : {false, true}) {
      const bool our_turn = second != (round % 2 != 0);  // who begins changes every round
      sleeping_barrier(contest.world());
      if (our_turn != contest.is_ours()) continue;
      const double ms = 1e3 * time_round(contest, of).count() / of.steps / of.units;
      if (round >= 0) times[static_cast<size_t>(round) + (our_turn ? rounds : 0)] = ms;
    }
  }
  sleeping_barrier(contest.world());
  mpi::allreduce(contest.world(), {times.data(), static_cast<int64_t>(times.size()), ElementType::float64}, ReduceOp::max);
  if (contest.world().rank() != 0) return;
  const std::vector<double> baseline(times.begin(), times.begin() + of.rounds);
  const std::vector<double> ours(times.begin() + of.rounds, times.end());
  const double baseline_ms = percentile(baseline, 0.5);
  const double ours_ms = percentile(ours, 0.5);
  std::cout << nlohmann::ordered_json{{"benchmark", of.benchmark},
                                      {"case", of.name},
                                      {"ranks", contest.comm().size()},
                                      {"baseline", of.baseline},
                                      {"baseline_ms", baseline_ms},
                                      {"ours_ms", ours_ms},
                                      {"ratio", baseline_ms / ours_ms},
                                      {"rounds", of.rounds},
                                      {"spread", (percentile(ours, 0.9) - percentile(ours, 0.1)) / ours_ms}}
            << std::endl;
}

/// What the main() of a driver does: MPI, one thread a rank, and the contest in which `cases` are measured.
inline int run(int argc, char** argv, const std::function<void(const Contest&)>& cases) {
  const Environment mpi(argc, argv);
  const Communicator world = mpi.world().dup();
  at::set_num_threads(1);
  cases(Contest(world));
  return 0;
}

}  // namespace tw::benchmark
