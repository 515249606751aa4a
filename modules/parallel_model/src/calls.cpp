// SPDX-License-Identifier: Apache-2.0
#include "calls.hpp"

#include <tw/base/contract.hpp>
#include <tw/mpi/library.hpp>

#include "mesh_axes.hpp"

namespace tw {

// None can follow over communicators of the user's, nor where replicas make calls apart from one another.
Calls::Calls(const Mesh& of, ReplicaMeeting replicas)
    : steps_(of.comm()),
      mesh_(steps_.comm(), of.shape().axes()),
      can_restart_(size_along(of.shape(), "tensor") == 1 && (replicas == ReplicaMeeting::every_step || size_along(of.shape(), "data") == 1)) {
  if (size_along(of.shape(), "tensor") > 1) split_layers_.emplace(mpi::share(of["tensor"]));
}

void Calls::begin(const std::function<void()>& make_again) {
  TW_EXPECTS(can_restart_ || !has_failed(),
             "a call of this model has failed, so no other can follow: make a new one. Its parameters are as they were. ",
             "What failed: ", failure_.empty() ? "another rank's part" : failure_);
  if (!can_restart_) return;
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
