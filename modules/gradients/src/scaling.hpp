// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/mpi/communicator.hpp>

namespace tw {

/// to = factor * from, for tensors of one shape and dtype; `to` is contiguous.
void scaled_copy(const at::Tensor& from, double factor, const at::Tensor& to);

/// Multiplies a contiguous tensor.
void scale(const at::Tensor& tensor, double factor);

/// Whether all products of a step are finite. Of those on an accelerator the host learns at the end, at once.
class FiniteCheck {
 public:
  /// Multiplies a contiguous tensor, and looks at the products.
  void scale(const at::Tensor& tensor, double factor);
  /// Whether all were finite. @param comm where the products come from
  bool passed(const Communicator& comm) const;

 private:
  bool on_host_ = true;
  at::Tensor on_device_;  // bool []; undefined: nothing lies there
};

}  // namespace tw
