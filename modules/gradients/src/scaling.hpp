// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>

namespace tw {

/// to = factor * from, for tensors of one shape and dtype; `to` is contiguous.
void scaled_copy(const at::Tensor& from, double factor, const at::Tensor& to);

/// Multiplies a contiguous tensor in place.
void scale(const at::Tensor& tensor, double factor);

/// Checks whether all products of a step are finite. Results from an accelerator are read once, at the end.
class FiniteCheck {
 public:
  /// Multiplies a contiguous tensor in place and checks the products.
  void scale(const at::Tensor& tensor, double factor);
  /// Whether all were finite. @param comm over which the products were summed
  bool passed(const Communicator& comm) const;

 private:
  bool on_host_ = true;
  at::Tensor on_device_;  // bool []; undefined if nothing was on a device
};

}  // namespace tw
