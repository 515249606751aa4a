// SPDX-License-Identifier: Apache-2.0
// What is not finite, and where it is.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <tw/data/dataset.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <vector>

namespace tw::train {

/// Whether all of them are, sparse or not, undefined ones too. The host waits once.
bool are_finite(const std::vector<at::Tensor>& gradients);

/// The batch that is to blame for what is not finite: of those since the ranks last heard of each other, the first whose loss was not, else the last.
class NonFiniteDiagnosis {
 public:
  /// To be called for each batch. @param seed of what the model drew for it.
  void note(const Batch& batch, uint64_t seed, bool finite);
  /// This rank left the update out: no later batch is to blame.
  void confirm() { certain_ = true; }

  /// Which rank's loss and which parameters' gradients are not finite, in words, the same on all ranks; then begins anew. Collective. Runs this
  /// rank's batch once more and takes gradients that no one reduces, since the reduced ones do not say where they come from. Buffers stay as they
  /// are.
  /// @param instead where ranks pass in step: what those without samples take then; gradients are not looked at
  std::string examine(const Communicator& comm, const Model& model, const Objective& objective, const std::optional<Batch>& instead = {});

 private:
  Batch batch_;
  uint64_t seed_ = 0;
  bool certain_ = false;
};

}  // namespace tw::train
