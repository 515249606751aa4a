// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <tw/comm/mesh.hpp>
#include <tw/comm/step_communicator.hpp>
#include <tw/parallel_model/options.hpp>

namespace tw {

/// The calls of a ParallelModel. They use a mesh with its own communicators, which can be revoked without affecting the user's. A call that fails on
/// one rank revokes them, so that it ends on all ranks; the next call makes new ones.
class Calls {
 public:
  /// Collective. @param of the user's mesh
  Calls(const Mesh& of, ReplicaSync replicas);

  const Mesh& mesh() const noexcept { return mesh_; }
  /// Call if split layers communicate on mesh() instead of the user's mesh, so that calls can follow a failed one. Local.
  void split_layers_use_mesh();

  /// Begins a call. Local, unless a call has failed; then collective. @param make_again makes all objects again that use communicators of mesh()
  /// @throws ContractError if a call has failed after which no other can follow
  void begin(const std::function<void()>& make_again);
  /// Runs `call`. If it throws on any rank, all ranks throw.
  template <class Call>
  auto together(const Call& call) {
    try {
      return call();
    } catch (...) {
      fail();
      throw;
    }
  }
  /// Call while you handle the exception that ends a call on this rank. Local.
  void fail();
  bool has_failed() const noexcept { return steps_.comm().revoked(); }
  /// The message of the last call that failed on this rank; empty: none.
  const std::string& failure() const noexcept { return failure_; }

 private:
  StepCommunicator steps_;
  Mesh mesh_;
  std::optional<Communicator> split_layers_;  // the user's communicator along `tensor`, if split layers use it
  bool replicas_make_calls_together_;
  std::string failure_;
};

}  // namespace tw
