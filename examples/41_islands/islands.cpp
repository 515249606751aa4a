// SPDX-License-Identifier: Apache-2.0
// Two islands with different methods, one with CMA-ES and one with a genetic algorithm. They send each other copies of their individuals.
//
// Build:   cmake --build build/release --target 41_islands
// Run:     build/release/mpirun -n 4 build/release/bin/41_islands
// Expect:  a loss below 5 for Rastrigin's function in 10 dimensions, which has 11^10 minima; each island has individuals from both
#include <cmath>
#include <iostream>
#include <numbers>
#include <string>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/mpi.hpp>
#include <tw/search/search.hpp>
#include <vector>

namespace {

/// 10 n + sum of x^2 - 10 cos(2 pi x): 0 at the origin.
double rastrigin(const std::vector<double>& x) {
  double total = 0;
  for (const double each : x) total += 10 + each * each - 10 * std::cos(2 * std::numbers::pi * each);
  return total;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tw::search;
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();

  std::vector<Parameter> parameters;
  for (int i = 0; i < 10; ++i) parameters.push_back(real("x" + std::to_string(i), -5.12, 5.12));
  const auto propagator = [](const WorkerContext& context) -> std::unique_ptr<Propagator> {
    if (context.island == 0) return std::make_unique<CmaEs>(context.space, CmaOptions{.lambda = 40}, context.seed);
    return std::make_unique<Breeder>(context.space);
  };
  Search search(
      comm, Space(parameters), [](const Configuration& c, Trial& /*trial*/) { return Outcome(rastrigin(c.values())); },
      {.islands = comm.size() > 1 ? 2 : 1, .evaluations = 20000, .migration = {.probability = 0.02, .copies = true}, .propagator = propagator});
  const SearchResult result = search.run();

  if (comm.rank() != 0) return 0;
  int64_t foreign = 0;
  for (size_t i = 0; i < search.population().active(); ++i) foreign += search.population().active_at(i).island != 0 ? 1 : 0;
  std::cout << "best " << result.best.loss << " from island " << result.best.island << "; " << foreign << " of " << search.population().active()
            << " individuals on island 0 came from the other one\n";
}
