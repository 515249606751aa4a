// SPDX-License-Identifier: Apache-2.0
// Parameters that several stages have: one each, of equal values, whose gradients are summed.
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include <tw/planning/stage_ranks.hpp>

namespace tw::pipeline {

/// A parameter of several stages.
struct Tie {
  std::string name;                // by which all of them know it
  std::vector<std::string> names;  // those that it has on stages, each once, in their order
  std::vector<int> stages;         // ascending, at least two
};

/// All of them, in an order of their names. Collective. @param model this rank's
/// @throws ContractError on every rank for replicas that have other parameters or buffers than the first one, and for a name that is on several
/// stages without being tied or tied on one alone, and for two tensors of one stage that are tied by one name
std::vector<Tie> agree_on_ties(const Communicator& comm, const StageRanks& ranks, const StageModel& model);

}  // namespace tw::pipeline
