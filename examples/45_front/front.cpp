// SPDX-License-Identifier: Apache-2.0
// Two objectives and a constraint: beams should be light, and bend little under a load at their end, without breaking. The result is not one best
// beam but a Pareto front: improving one objective worsens the other.
//
// Build:   cmake --build build/release --target 45_front
// Run:     build/release/mpirun -n 4 build/release/bin/45_front
// Expect:  about 100 beams, from light ones that bend by about 1 cm to ones of 10 kg and more that hardly bend; the heavier, the stiffer
#include <cmath>
#include <iostream>
#include <numbers>
#include <tw/mpi.hpp>
#include <tw/search/search.hpp>

namespace {

using namespace tw::search;

/// A round beam of 1 m, fixed at one end, with 1 kN at the other: mass in kg, deflection F l^3 / (3 E I) in mm, and stress in MPa.
Outcome beam(const Configuration& c, Trial& /*trial*/) {
  const bool is_steel = c.text("material") == "steel";
  const double density = is_steel ? 7850 : 2700, modulus = is_steel ? 2.0e11 : 7.0e10, strength = is_steel ? 250 : 200;
  const double outer = c.real("diameter"), inner = outer * c.real("hollow"), force = 1000, length = 1;
  const double area = std::numbers::pi / 4 * (outer * outer - inner * inner);
  const double inertia = std::numbers::pi / 64 * (std::pow(outer, 4) - std::pow(inner, 4));
  const double stress = force * length * outer / 2 / inertia / 1e6;
  return Outcome{density * area * length, 1e3 * force * std::pow(length, 3) / (3 * modulus * inertia)}.constrained({stress - strength});
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const Space space{real("diameter", 0.02, 0.15), real("hollow", 0, 0.9), categorical("material", {"steel", "aluminium"})};
  Search search(mpi.world(), space, beam, {.evaluations = 4000, .objectives = {"kg", "mm"}});
  const SearchResult result = search.run();
  if (mpi.world().rank() != 0) return 0;
  std::cout << result.front.size() << " beams of which none is better in both; " << result.infeasible << " would have broken\n";
  for (size_t i = 0; i < result.front.size(); i += result.front.size() / 5 + 1) {
    const Individual& each = result.front[i];
    std::cout << each.objectives[0] << " kg, " << each.objectives[1] << " mm: " << Configuration(space, each.values).describe() << '\n';
  }
}
