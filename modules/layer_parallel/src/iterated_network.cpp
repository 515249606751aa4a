// SPDX-License-Identifier: Apache-2.0
#include "iterated_network.hpp"

#include <ostream>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/planning/level_prediction.hpp>

namespace tw::layer_parallel {

void expect_iterations(const Communicator& comm, Iterations iterations) {
  const auto [forward, backward] = iterations;
  expect_same_on_all_ranks(comm, "iterations", {concat(forward, " forward"), concat(backward, " backward")});
  TW_EXPECTS(forward >= 0 && backward >= 0, "iterations must be at least 0, got ", forward, " and ", backward);
  TW_EXPECTS((forward == 0) == (backward == 0), "either both directions must be serial, with 0 iterations, or neither; got ", forward, " and ",
             backward);
}

double modelled_speed_up(const LevelPlan& plan, const MgritOptions& forward, const MgritOptions& backward, int64_t serial_layers) {
  if (forward.iterations == 0) return 1;
  const auto pass = [](const MgritOptions& o) {
    const bool waits_for_residuals = o.tolerance > 0 || o.on_divergence != OnDivergence::report;
    return PassOptions{.cycle = o.cycle, .iterations = o.iterations, .residuals = waits_for_residuals};
  };
  return predict(plan, pass(forward), pass(backward), {.serial_layers = serial_layers}).speed_up;
}

PhaseObserver without_levels(OnPhase on_phase) {
  if (!on_phase) return {};
  return [on_phase = std::move(on_phase)](const char* name, int /*level*/, auto begin, auto end) { on_phase(name, begin, end); };
}

std::ostream& operator<<(std::ostream& out, const NetworkReport& report) {
  for (const auto& block : report.blocks) {
    out << "block " << block.name << ", forward: " << block.forward.describe() << "block " << block.name
        << ", backward: " << block.backward.describe();
    if (block.modelled_speed_up > 0) out << "  modelled speed-up " << block.modelled_speed_up << '\n';
  }
  return out << "forward " << 1e3 * report.forward.count() << " ms, backward " << 1e3 * report.backward.count() << " ms\n";
}

}  // namespace tw::layer_parallel
