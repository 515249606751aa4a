// SPDX-License-Identifier: Apache-2.0
// Finds the origin of non-finite values.
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

/// Whether all values are finite. Sparse and undefined tensors are allowed. The host synchronizes once.
bool are_finite(const std::vector<at::Tensor>& gradients);

/// Finds the batch that caused non-finite values: among the batches since the ranks last exchanged signals, the first with a non-finite loss,
/// otherwise the last.
class NonFiniteDiagnosis {
 public:
  /// Call for each batch. @param seed of the model's random numbers for it.
  void note(const Batch& batch, uint64_t seed, bool finite);
  /// This rank skipped the update, so no later batch is the cause.
  void confirm() { certain_ = true; }

  /// Reports which rank's loss and which parameters' gradients are not finite, equal on all ranks; then resets. Collective. Runs this rank's batch
  /// again with local gradients, since reduced ones do not show their origin. Leaves buffers unchanged.
  /// @param instead for ranks that pass in step: the batch for those without samples; gradients are then not checked
  std::string examine(const Communicator& comm, const Model& model, const Objective& objective, const std::optional<Batch>& instead = {});

 private:
  Batch batch_;
  uint64_t seed_ = 0;
  bool certain_ = false;
};

}  // namespace tw::train
