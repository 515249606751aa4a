// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <optional>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// A number that the host needs later, in transfer from the device that computes it. A number on the CPU is available at once.
class PendingScalar {
 public:
  /// @param number 0-dimensional
  explicit PendingScalar(const at::Tensor& number);

  /// Waits, unless the host has waited for something later in that stream: as for an operation of `comm`, so that whatever has to happen before can,
  /// and ranks that are late in what the stream waits for are named. @throws RevokedError where `comm` is revoked meanwhile
  double value(const Communicator& comm) const;

 private:
  at::Tensor here_;                    // float64 []
  std::optional<c10::Event> arrived_;  // none: it is there
};

}  // namespace tw
