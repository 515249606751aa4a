// SPDX-License-Identifier: Apache-2.0
// Contestants take turns on the same cores, each in its own processes, so that they do not share heap or caches.
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

/// The ranks of a run, divided into one group per contestant; ours is the last one.
class Contest {
 public:
  /// Collective. @param world its size is a multiple of `contestants`; kept by reference.
  explicit Contest(const Communicator& world, int contestants = 2)
      : world_(world),
        contestants_(contestants),
        contestant_(contestants * world.rank() / world.size()),
        comm_(world.split(contestant_, world.rank())) {
    TW_EXPECTS(world.size() % contestants == 0, "a contest of ", contestants, " needs a multiple of this many ranks, got ", world.size());
  }

  const Communicator& world() const noexcept { return world_; }
  int contestants() const noexcept { return contestants_; }
  /// The contestant of this rank.
  int contestant() const noexcept { return contestant_; }
  /// The ranks of this contestant.
  const Communicator& comm() const noexcept { return comm_; }
  bool is_ours() const noexcept { return contestant_ == contestants_ - 1; }

 private:
  const Communicator& world_;
  int contestants_;
  int contestant_;
  Communicator comm_;
};

/// A barrier that leaves the cores to ranks that still compute: it polls every 0.2 ms.
inline void sleeping_barrier(const Communicator& comm) {
  Work work = mpi::start(comm, {.collective = Collective::barrier}, mpi::barrier_transfer(comm));
  while (!work.test()) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

/// The value below which `share` of `values` lies, by linear interpolation.
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
  int steps = 10;                   ///< calls per round
  std::function<void()> step = {};  ///< step of this contestant
  /// Untimed preparation before every step: fresh data for a communication, and a barrier. If empty, the steps of a round follow each other directly.
  std::function<void()> prepare = {};
  double units = 1;  ///< work of one call of this contestant, in common units; times are per unit
};

/// Time of one round of this contestant.
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

/// Runs the contestants in turns, round by round, after a warm-up of three rounds each; the first contestant alternates. Collective over the world.
/// @return by contestant, the time of each round in ms per unit, on the slowest rank
inline std::vector<std::vector<double>> take_turns(const Contest& contest, const Case& of) {
  constexpr int warm_up = 3;
  const auto rounds = static_cast<size_t>(of.rounds);
  const auto contestants = static_cast<size_t>(contest.contestants());
  std::vector<double> times(contestants * rounds);
  for (int round = -warm_up; round < of.rounds; ++round) {
    for (int turn = 0; turn < contest.contestants(); ++turn) {
      const int whose = (turn + round + warm_up) % contest.contestants();
      sleeping_barrier(contest.world());
      if (whose != contest.contestant()) continue;
      const double ms = 1e3 * time_round(contest, of).count() / of.steps / of.units;
      if (round >= 0) times[static_cast<size_t>(whose) * rounds + static_cast<size_t>(round)] = ms;
    }
  }
  sleeping_barrier(contest.world());
  mpi::allreduce(contest.world(), {times.data(), static_cast<int64_t>(times.size()), ElementType::float64}, ReduceOp::max);
  std::vector<std::vector<double>> by_contestant;
  for (size_t i = 0; i < contestants; ++i) {
    by_contestant.emplace_back(times.begin() + static_cast<int64_t>(i * rounds), times.begin() + static_cast<int64_t>((i + 1) * rounds));
  }
  return by_contestant;
}

/// Prints one JSON line on the world's rank 0. @param baseline, ours times of each round, in ms.
inline void print(const Contest& contest, const Case& of, const std::vector<double>& baseline, const std::vector<double>& ours) {
  if (contest.world().rank() != 0) return;
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

/// Compares ours with the baseline in a contest of two. Collective over the world.
inline void compare(const Contest& contest, const Case& of) {
  const auto times = take_turns(contest, of);
  print(contest, of, times.front(), times.back());
}

/// The main() of a benchmark: initialises MPI, sets one thread per rank, and runs `cases` in a contest.
inline int run(int argc, char** argv, const std::function<void(const Contest&)>& cases, int contestants = 2) {
  const Environment mpi(argc, argv);
  const Communicator world = mpi.world().dup();
  at::set_num_threads(1);
  cases(Contest(world, contestants));
  return 0;
}

}  // namespace tw::benchmark
