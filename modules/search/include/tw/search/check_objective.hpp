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
  int configurations = 4;  ///< number of random configurations; each is evaluated twice
  uint64_t seed = 0;

  /// @throws ContractError naming the wrong field
  void validate() const;
};

struct ObjectiveCheck {
  std::vector<std::string> problems = {};  ///< one line each; empty: none
  double seconds = 0;                      ///< mean duration of an evaluation
  double slowest_seconds = 0;
};

/// Tests whether an objective meets the assumptions of a search: it throws nothing, its losses and reports are finite, and the steps of its reports
/// ascend. A repeated trial must return and report the same values bit by bit, whatever was evaluated in between; draw random numbers from
/// trial.rng(). Also measures how long an evaluation takes.
/// Collective over `comm`. Its ranks evaluate each trial together, as one worker. @return the same on all ranks
/// @throws ContractError on every rank if options are wrong, or if the space or options differ between ranks; the message names the wrong option, or
/// these ranks and the difference
ObjectiveCheck check_objective(const Communicator& comm, const Space& space, const Objective& objective, const ObjectiveCheckOptions& options = {});

}  // namespace tw::search
