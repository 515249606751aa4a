// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tw {

/// content_hash() (<tw/base/hash.hpp>) of the elements' bytes in logical order. Strides, shape and dtype are not hashed.
/// @param tensor dense; a tensor on an accelerator is copied to the host, which waits for the copy.
uint64_t content_hash(const at::Tensor& tensor);

}  // namespace tw
