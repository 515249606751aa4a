// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/known_memory.hpp>

namespace tw {

void KnownMemory::add(MemoryUse use, const at::Tensor& tensor, int sharers) {
  if (!tensor.defined()) return;
  if (tensor.is_sparse()) {
    add(use, tensor._indices());
    return add(use, tensor._values());
  }
  if (!tensor.has_storage()) return;
  const c10::Storage& storage = tensor.storage();
  blocks_.try_emplace(storage.data(), Block{use, static_cast<int64_t>(storage.nbytes()) / sharers});
}

MemoryByUse KnownMemory::bytes() const {
  MemoryByUse sum = elsewhere_;
  for (const auto& [address, block] : blocks_) sum[block.use] += block.bytes;
  return sum;
}

}  // namespace tw
