// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <c10/core/Event.h>
#include <optional>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// A number in transfer from the device that computes it to the host. A number on the CPU is available at once.
class PendingScalar {
 public:
  /// @param number 0-dimensional
  explicit PendingScalar(const at::Tensor& number);

  /// Returns the number; waits unless it has arrived. It waits as for an operation of `comm`: communication progresses meanwhile, and late ranks are
  /// reported. @throws RevokedError if `comm` is revoked meanwhile
  double value(const Communicator& comm) const;

 private:
  at::Tensor here_;                    // float64 []
  std::optional<c10::Event> arrived_;  // none: available
};

}  // namespace tw
