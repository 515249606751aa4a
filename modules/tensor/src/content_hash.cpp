// SPDX-License-Identifier: Apache-2.0
#include <tw/base/hash.hpp>
#include <tw/tensor/content_hash.hpp>
#include <tw/tensor/on_cpu.hpp>

namespace tw {

uint64_t content_hash(const at::Tensor& tensor) {
  const at::Tensor memory = on_cpu(tensor.detach(), "content_hash()").resolve_conj().resolve_neg().contiguous();
  return content_hash({static_cast<const char*>(memory.const_data_ptr()), memory.nbytes()});
}

}  // namespace tw
