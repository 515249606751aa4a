// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tw::pipeline {

/// Advances with every change in place; 0 for inference tensors, which have no version.
inline uint32_t version_of(const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

/// Whether values are equal; NaN equals NaN.
inline bool is_unchanged(const at::Tensor& before, const at::Tensor& now) { return before.allclose(now, 0, 0, /*equal_nan=*/true); }

}  // namespace tw::pipeline
