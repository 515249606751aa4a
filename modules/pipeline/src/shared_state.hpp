// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/pipeline/stage_model.hpp>
#include <tw/planning/stage_ranks.hpp>
#include <vector>

namespace tw::pipeline {

/// The buffers and tied parameters that several stages have. The rule: the stage whose pass changes one sends it to the others, so that evaluation
/// may read elsewhere what training changes.
class SharedState {
 public:
  /// Collective over `comm`. Borrows all.
  SharedState(const Communicator& comm, const StageRanks& ranks, const StageModel& model);

  /// Before a pass.
  void remember();
  /// After it, before anything but the pass changes tensors.
  void note_changes();
  /// Sends what passes have changed since the last time, as the first replica of the stage has it. Collective over all ranks.
  /// @throws Error on every rank, naming the tensor and the stages, where two stages have changed one
  void exchange();

 private:
  struct Entry {
    std::string name;         // by which all stages know it
    std::vector<int> stages;  // that have it, ascending
    at::Tensor here;          // undefined: this rank has none
    bool is_parameter = false;
    at::Tensor before;     // a copy, of a buffer
    uint32_t version = 0;  // of a parameter, before
    bool is_changed = false;
  };

  const Communicator& comm_;
  const StageRanks& ranks_;
  std::vector<Entry> entries_;
};

}  // namespace tw::pipeline
