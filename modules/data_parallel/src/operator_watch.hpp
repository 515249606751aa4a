// SPDX-License-Identifier: Apache-2.0
// Tensors whose owner is told before an operator of LibTorch takes them, in a forward pass or in autograd's, on any thread: what hooks of modules are
// elsewhere. They carry a dispatch key that comes before all others, so that other operators cost what they did; so do views of them.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <memory>
#include <span>
#include <string>

namespace tw {

struct WatchedMemory;

/// What an operator is about to take.
struct Taken {
  WatchedMemory* memory;
  int64_t offset;  ///< of its first element there
  bool written;
};

/// Whom memory belongs to.
class MemoryOwner {
 public:
  virtual ~MemoryOwner() = default;
  /// An operator, called by none of LibTorch's, is about to take `taken`, perhaps memory of others, too. What this throws, the operator throws.
  /// @param op its name, such as "aten::add_"
  virtual void before_operator(std::span<const Taken> taken, const std::string& op) = 0;
};

struct WatchedMemory {
  MemoryOwner* owner;  ///< null when it is gone
  size_t index = 0;    ///< the owner's number for it
};

/// A pointer for a storage to hold: says whose it is. @param keeps lives as long
at::DataPtr watched_pointer(void* data, std::shared_ptr<WatchedMemory> memory, std::shared_ptr<void> keeps, c10::Device device);

/// Whether operators that take `tensor`, whose storage has such a pointer, are heard of from now on.
void watch(const at::Tensor& tensor, bool watched = true);
/// Who takes a pointer to the storage, which has no memory, gets an error that says `why`, until it is allowed again.
void refuse_pointers(const c10::Storage& storage, const std::string& why);
void allow_pointers(const c10::Storage& storage);
/// Whether the storage of `tensor` has such a pointer, heard of or not, and even if its owner is gone.
bool has_watched_memory(const at::Tensor& tensor);

/// What `tensor` is from now on: of the same shape, contiguous from element `offset` of `storage`, and on its device. Who holds it holds that.
void place_in_storage(const at::Tensor& tensor, const c10::Storage& storage, int64_t offset, c10::ScalarType dtype);

}  // namespace tw
