// SPDX-License-Identifier: Apache-2.0
// Parameters of several devices: each has a copy of equal value, and their gradients are summed.
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include <tw/planning/stage_ranks.hpp>

namespace tw::pipeline {

/// A parameter of several devices.
struct Tie {
  std::string name;                // the name that all devices use
  std::vector<std::string> names;  // its names, each once, in the order of devices
  std::vector<int> devices;        // of the schedule, ascending, at least two
};

/// All ties, in the order of their names. Collective. @param model this rank's stages
/// @throws ContractError on every rank if replicas have different parameters or buffers, if a name is on several devices without being
/// tied, or is tied on only one, if two tensors of one rank are tied under one name, and if a tied parameter has sparse gradients
std::vector<Tie> agree_on_ties(const Communicator& comm, const StageRanks& ranks, const StageModel& model);

}  // namespace tw::pipeline
