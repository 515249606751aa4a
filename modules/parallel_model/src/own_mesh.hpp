// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/comm/mesh.hpp>
#include <tw/comm/step_communicator.hpp>

namespace tw {

/// A mesh with communicators of its own, which can be revoked without ending the user's. A call that fails revokes them, and the next one makes
/// others.
class OwnMesh {
 public:
  /// Collective.
  explicit OwnMesh(const Mesh& of) : calls_(of.comm()), mesh_(calls_.comm(), of.shape().axes()) {}

  const Mesh& mesh() const noexcept { return mesh_; }

  /// Begins a call; as StepCommunicator::begin(). @return whether all communicators of mesh() have been replaced
  bool begin() {
    if (!calls_.begin()) return false;
    mesh_ = Mesh(calls_.comm(), mesh_.shape().axes());
    return true;
  }
  /// As StepCommunicator::fail(), for all communicators of mesh() and those derived from them.
  void fail() const { calls_.fail(); }
  bool has_failed() const noexcept { return calls_.comm().revoked(); }

 private:
  StepCommunicator calls_;
  Mesh mesh_;
};

}  // namespace tw
