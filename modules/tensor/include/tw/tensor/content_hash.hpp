// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tw {

/// The hash of the elements' bytes in logical order, independent of strides, shape and dtype. See content_hash() of bytes.
/// @param tensor dense; a tensor on an accelerator is copied to the host, which waits for the copy.
uint64_t content_hash(const at::Tensor& tensor);

}  // namespace tw
