// SPDX-License-Identifier: Apache-2.0
#include <tw/base/hash.hpp>
#include <tw/tensor/content_hash.hpp>
#include <tw/tensor/on_cpu.hpp>

namespace tw {

uint64_t content_hash(const at::Tensor& tensor) {
  expect_dense_on_cpu(tensor, "content_hash()");
  const at::Tensor memory = tensor.detach().resolve_conj().resolve_neg().contiguous();
  return content_hash({static_cast<const char*>(memory.const_data_ptr()), memory.nbytes()});
}

}  // namespace tw
