// SPDX-License-Identifier: Apache-2.0
#include "calls.hpp"

#include <tw/base/contract.hpp>
#include <tw/mpi/library.hpp>

#include "mesh_axes.hpp"

namespace tw {

// No call can follow a failed one if split layers use the user's communicators, or if replicas make their calls independently.
Calls::Calls(const Mesh& of, ReplicaSync replicas)
    : steps_(of.comm()),
      mesh_(steps_.comm(), of.shape().axes()),
      replicas_make_calls_together_(replicas == ReplicaSync::every_step || size_along(of.shape(), "data") == 1) {
  if (size_along(of.shape(), "tensor") > 1) split_layers_.emplace(mpi::share(of["tensor"]));
}

void Calls::split_layers_use_mesh() { split_layers_.reset(); }

void Calls::begin(const std::function<void()>& make_again) {
  const bool can_restart = replicas_make_calls_together_ && !split_layers_;
  TW_EXPECTS(can_restart || !has_failed(),
             "a call of this ParallelModel has failed, so it accepts no other call: make a new one. The parameters of this one are unchanged. ",
             "What failed: ", failure_.empty() ? "the part of another rank" : failure_);
  if (!can_restart) return;
  together([&] {
    if (!steps_.begin()) return;
    mesh_ = Mesh(steps_.comm(), mesh_.shape().axes());
    make_again();
  });
}

void Calls::fail() {
  steps_.fail();
  failure_ = message_of_current_exception();
  if (split_layers_ && !split_layers_->revoked()) split_layers_->revoke(failure_);
}

}  // namespace tw
