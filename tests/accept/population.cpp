// SPDX-License-Identifier: Apache-2.0
// A training that needs a falling learning rate: a population whose members copy each other, compared with constant rates on a dense grid.
// Run: mpirun -n RANKS accept_population [SEEDS] [RATES]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <median.hpp>
#include <noisy_regression.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/search/search.hpp>
#include <vector>

namespace {

using namespace tw::search;
using tw::testing::median_of;
using tw::testing::NoisyRegression;

constexpr double lowest_rate = 1e-5;
constexpr double highest_rate = 0.1;
constexpr double goal = 0.15;                // excess error: below the best constant rate, and several times the population's
constexpr int64_t members_of_a_worker = 16;  // steps take microseconds, so other workers may be far ahead or late, and are no help
constexpr int64_t interval = 10;

double best_of_population(const tw::Communicator& comm, uint64_t seed) {
  const auto train = [seed](const Configuration& c, Trial& trial) {
    NoisyRegression training(c.real("lr"), seed, static_cast<uint64_t>(trial.number()));
    for (int64_t step = trial.attach(training.tensors()) + 1; step <= NoisyRegression::steps; ++step) {
      training.step(step);
      if (step % interval == 0 && !trial.report(step, training.excess())) break;
    }
    return Outcome(training.excess());
  };
  Search search(comm, {real("lr", lowest_rate, highest_rate, log_scale)}, train,
                {.evaluations = members_of_a_worker * comm.size(),
                 .seed = seed,
                 .scheduler = PopulationTrainingOptions{.interval = interval, .max_steps = NoisyRegression::steps}});
  return search.run().best.loss;
}

/// The best of `rates` rates, evenly spaced on a logarithmic scale, each with the same samples.
double best_of_constant_rates(const tw::Communicator& comm, int rates, uint64_t seed) {
  double best = HUGE_VAL;
  for (int i = comm.rank(); i < rates; i += comm.size()) {
    const double rate = lowest_rate * std::pow(highest_rate / lowest_rate, static_cast<double>(i) / (rates - 1));
    best = std::fmin(best, NoisyRegression::excess_at(rate, seed));  // NaN if it diverges
  }
  tw::mpi::allreduce(comm, {&best, 1, tw::ElementType::float64}, tw::ReduceOp::min);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const tw::Environment mpi(argc, argv);
  const tw::Communicator& comm = mpi.world();
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 9;
  const int rates = argc > 2 ? std::atoi(argv[2]) : 200;
  std::vector<double> populations;
  std::vector<double> constants;
  for (int seed = 0; seed < seeds; ++seed) {
    populations.push_back(best_of_population(comm, static_cast<uint64_t>(seed)));
    constants.push_back(best_of_constant_rates(comm, rates, static_cast<uint64_t>(seed)));
  }
  if (comm.rank() != 0) return 0;
  const double best_constant = *std::min_element(constants.begin(), constants.end());
  const bool reached = median_of(populations) < goal && best_constant > goal;
  std::printf("excess error, of %d seeds: population of %d: median %.3g, at most %.3g; best of %d constant rates: median %.3g, at least %.3g\n",
              seeds, static_cast<int>(members_of_a_worker) * comm.size(), median_of(populations),
              *std::max_element(populations.begin(), populations.end()), rates, median_of(constants), best_constant);
  std::printf("below %.3g: %s\n", goal, reached ? "the population alone" : "NOT AS EXPECTED");
  return reached ? 0 : 1;
}
