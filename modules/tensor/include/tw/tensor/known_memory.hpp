// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/tensor/memory_use.hpp>
#include <unordered_map>

namespace tw {

/// Memory blocks whose use is known.
class KnownMemory {
 public:
  /// Adds the block that holds `tensor`. If a block is added again, its first use counts. Undefined tensors are ignored. @param sharers number of
  /// ranks that share the block; each counts an equal share of it
  void add(MemoryUse use, const at::Tensor& tensor, int sharers = 1);
  /// Adds memory that does not belong to a tensor.
  void add(MemoryUse use, int64_t bytes) { elsewhere_[use] += bytes; }
  /// Bytes of all that was added.
  MemoryByUse bytes() const;

 private:
  friend class MemoryAccount;
  struct Block {
    MemoryUse use;
    int64_t bytes;
  };
  using Blocks = std::unordered_map<const void*, Block>;
  Blocks blocks_;
  MemoryByUse elsewhere_;
};

}  // namespace tw
