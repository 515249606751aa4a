// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <optional>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// A number that is being copied to the host from the device that computes it. A number on the CPU is available at once.
class PendingScalar {
 public:
  /// @param number 0-dimensional
  explicit PendingScalar(const at::Tensor& number);

  /// Returns the number; waits until it has arrived. Like a wait for an operation of `comm`, this advances communication and reports late ranks.
  /// @throws RevokedError if `comm` is revoked meanwhile
  double value(const Communicator& comm) const;

 private:
  at::Tensor here_;                    // float64 []
  std::optional<c10::Event> arrived_;  // none: available
};

}  // namespace tw
