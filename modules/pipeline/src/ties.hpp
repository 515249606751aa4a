// SPDX-License-Identifier: Apache-2.0
// Parameters of several stages: each stage has a copy of equal value, and their gradients are summed.
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
  std::string name;                // the name that all stages use
  std::vector<std::string> names;  // its names on the stages, each once, in the order of stages
  std::vector<int> stages;         // ascending, at least two
};

/// All ties, in the order of their names. Collective. @param model this rank's stage
/// @throws ContractError on every rank if replicas of a stage have different parameters or buffers, if a name is on several stages without being
/// tied, or is tied on only one, if two tensors of one stage are tied under one name, and if a tied parameter has sparse gradients
std::vector<Tie> agree_on_ties(const Communicator& comm, const StageRanks& ranks, const StageModel& model);

}  // namespace tw::pipeline
