// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/ivalue.h>

#include <tw/graph/graph.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw::tensor_parallel {

/// The communicator as an argument of the operators of this module, for graphs that are not captured. @param comm shared, not duplicated
c10::IValue ranks_argument(const Communicator& comm);

/// The communicator on which a captured graph of a module with split layers communicates, instead of that of the layers. It can be changed between
/// replays.
///
/// ```
/// CapturedRanks ranks(mesh["tensor"]);  // on which the module's split layers communicate
/// graph::replace_objects(graph, [&](const graph::Object& object) { return ranks.replacing(object); });
/// ranks.set(own_mesh["tensor"]);        // on which replays communicate
/// ```
class CapturedRanks {
 public:
  /// @param of_layers the communicator of the split layers; shared, not duplicated. Replays use it until set()
  explicit CapturedRanks(const Communicator& of_layers);

  /// Returns the value of `object` in replays: its own value, unless that is the communicator of the layers. Local.
  c10::IValue replacing(const graph::Object& object) const;
  /// Sets the communicator of replays. Local; call it on all ranks. @param comm shared, not duplicated
  /// @throws ContractError unless this rank's number, and the number of ranks, are those in the communicator of the layers
  void set(const Communicator& comm);

 private:
  Communicator of_layers_;
  c10::IValue value_;
};

}  // namespace tw::tensor_parallel
