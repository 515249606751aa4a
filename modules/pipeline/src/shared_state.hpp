// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <tw/planning/stage_ranks.hpp>
#include <vector>

namespace tw::pipeline {

/// Buffers and tied parameters of several devices of the schedule. The device whose pass changes one sends it to the others, so that evaluation may
/// read on one device what training changes on another.
class SharedState {
 public:
  /// Collective over `comm`. Keeps references to all arguments.
  SharedState(const Communicator& comm, const StageRanks& ranks, const StageModel& model);

  /// Call before a pass.
  void remember();
  /// Call after a pass, before anything else changes the tensors.
  void note_changes();
  /// Sends tensors that passes changed since the last call, from the first replica of the device. Collective over all ranks.
  /// @throws Error on every rank, naming the tensor and the stages, if two devices changed the same tensor
  void exchange();

 private:
  struct Entry {
    std::string name;          // the name that all devices use
    std::vector<int> devices;  // devices that have it, ascending
    at::Tensor here;           // undefined: not on this rank
    bool is_parameter = false;
    at::Tensor before;     // copy of a buffer before the pass
    uint32_t version = 0;  // version of a parameter before the pass
    bool is_changed = false;
  };

  const Communicator& comm_;
  const StageRanks& ranks_;
  std::vector<Entry> entries_;
};

}  // namespace tw::pipeline
