// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tw {

/// Of the elements' bytes in order, whatever the strides; shape and dtype do not count. See content_hash() of bytes.
/// @param tensor dense; one on an accelerator is copied here, which waits.
uint64_t content_hash(const at::Tensor& tensor);

}  // namespace tw
