// SPDX-License-Identifier: Apache-2.0
// Searches for the minimum of a function. Each rank evaluates configurations and shares its results with the others. Thanks to the journal, a second
// run continues where the first one ended.
//
// Build:   cmake --build build/release --target 40_search_function
// Run:     mpirun -n 2 build/release/bin/40_search_function
// Expect:  a loss below 1e-6 near x = 1, y = 1, with the variant "deep"
#include <cmath>
#include <iostream>
#include <tw/mpi.hpp>
#include <tw/search/report.hpp>
#include <tw/search/search.hpp>

int main(int argc, char** argv) {
  using namespace tw::search;
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();

  const Space space{real("x", -2, 2), real("y", -2, 2), categorical("variant", {"deep", "shallow"})};
  const auto rosenbrock = [](const Configuration& c, Trial& /*trial*/) {
    const double x = c.real("x");
    const double y = c.real("y");
    return 100 * std::pow(y - x * x, 2) + std::pow(1 - x, 2) + (c.text("variant") == "deep" ? 0 : 0.1);
  };
  Search search(comm, space, rosenbrock, {.evaluations = 4000, .journal = "runs/search_function"});
  const SearchResult result = search.run();

  if (comm.rank() != 0) return 0;
  write_reports("runs/search_function", space);
  std::cout << result.complete << " evaluations, best " << result.best.loss << ": " << Configuration(space, result.best.values).describe()
            << "\nreport: runs/search_function/report.html\n";
}
