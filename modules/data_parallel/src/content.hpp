// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/base/hash.hpp>

namespace tw {

/// Of the elements' bytes in order, whatever the strides.
inline uint64_t content_hash(const at::Tensor& tensor) {
  const at::Tensor memory = tensor.detach().resolve_conj().resolve_neg().contiguous();
  return content_hash({static_cast<const char*>(memory.const_data_ptr()), memory.nbytes()});
}

}  // namespace tw
