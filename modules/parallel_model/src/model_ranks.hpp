// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/comm/mesh.hpp>
#include <tw/comm/ranks_along.hpp>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/parallel_model/options.hpp>
#include <vector>

namespace tw {

/// The ranks with which a rank communicates in calls of a ParallelModel.
class ModelRanks {
 public:
  /// Collective over `mesh`, which is borrowed.
  ModelRanks(const Mesh& mesh, ReplicaSync replicas);

  /// The mesh of the ranks that communicate in every update.
  const Mesh& update_mesh() const noexcept { return replica_ ? *replica_ : mesh_; }
  /// A communicator of the ranks of update_mesh(), used only by the owner of this object.
  const Communicator& comm() const noexcept { return comm_; }
  const RanksAlong& places() const noexcept { return places_; }    ///< all ranks with different samples
  const RanksAlong& samples() const noexcept { return samples_; }  ///< the ranks of places() that communicate in every update
  const RanksAlong& model() const noexcept { return model_; }      ///< ranks that hold the model together
  const RanksAlong& parts() const noexcept { return parts_; }      ///< ranks with different elements of the model
  /// By rank of update_mesh(): its place among samples().
  std::vector<int> place_of() const;
  /// The ranks that sum gradients.
  SumRanks of_sums() const;

 private:
  const Mesh& mesh_;
  std::optional<Mesh> replica_;  // set if replicas train independently
  Communicator comm_;
  RanksAlong places_;
  RanksAlong samples_;
  RanksAlong model_;
  RanksAlong parts_;
};

}  // namespace tw
