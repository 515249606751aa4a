// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

namespace tw {

/// to = factor * from, for tensors of one shape and dtype; `to` is contiguous.
void scaled_copy(const at::Tensor& from, double factor, const at::Tensor& to);

/// Multiplies a contiguous tensor.
void scale(const at::Tensor& tensor, double factor);

/// The same, and says whether every product is finite.
bool scale_finite(const at::Tensor& tensor, double factor);

}  // namespace tw
