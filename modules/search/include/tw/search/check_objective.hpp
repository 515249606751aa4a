// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <tw/evolution/space.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/search/trial.hpp>
#include <vector>

namespace tw::search {

struct ObjectiveCheckOptions {
  int configurations = 4;  ///< at random; each is evaluated twice
  uint64_t seed = 0;

  /// @throws ContractError naming the wrong field
  void validate() const;
};

struct ObjectiveCheck {
  std::vector<std::string> problems = {};  ///< a line each; empty: none
  double seconds = 0;                      ///< of an evaluation, the mean
  double slowest_seconds = 0;
};

/// Tests what a search assumes of an objective: that it throws nothing, that losses and reports are finite and steps ascend, and that
/// the same trial returns the same ones again, bit by bit, whatever was evaluated in between (trial.rng() does). It reports an evaluation's cost.
/// Collective over `comm`, whose ranks evaluate together, as those of one worker. @return the same on all of them
/// @throws ContractError on every rank for wrong options, and for a space or options that differ between ranks, naming these and what differs
ObjectiveCheck check_objective(const Communicator& comm, const Space& space, const Objective& objective, const ObjectiveCheckOptions& options = {});

}  // namespace tw::search
