// SPDX-License-Identifier: Apache-2.0
// Watched tensors: their owner is called before a LibTorch operator uses them, in forward passes and in autograd, on any thread. Other frameworks use
// module hooks for this. Watched tensors and their views carry a dispatch key above those of autograd and functorch; operators on other tensors cost
// nothing.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <memory>
#include <span>
#include <string>

namespace tw {

struct WatchedMemory;

/// A watched argument of an operator.
struct WatchedArgument {
  WatchedMemory* memory;
  int64_t offset;  ///< place of its first element in `memory`
  bool written;
};

/// Owner of watched memory.
class MemoryOwner {
 public:
  virtual ~MemoryOwner() = default;
  /// A top-level operator is about to use `arguments`; some of them may belong to other owners. Exceptions propagate to the operator's caller.
  /// @param op its name, e.g. "aten::add_"
  virtual void before_operator(std::span<const WatchedArgument> arguments, const std::string& op) = 0;
};

struct WatchedMemory {
  MemoryOwner* owner;  ///< null once the owner is destroyed
  size_t index = 0;    ///< the owner's number for this memory
  bool stays = false;  ///< whether the memory exists at all times
};

/// A storage pointer that records its owner. @param keeps kept alive as long as the pointer
at::DataPtr watched_pointer(void* data, std::shared_ptr<WatchedMemory> memory, std::shared_ptr<void> keeps, c10::Device device);

/// What the watched_pointer() of `tensor` keeps alive; null if operators do not report to `owner`.
std::shared_ptr<void> kept_by(const at::Tensor& tensor, const MemoryOwner& owner);

/// Sets whether operators that use `tensor` report to its owner. Its storage must hold a watched_pointer().
void watch(const at::Tensor& tensor, bool watched = true);
/// Until allow_pointers(), taking a data pointer of `storage`, which has no memory, fails with the message `why`.
void refuse_pointers(const c10::Storage& storage, const std::string& why);
void allow_pointers(const c10::Storage& storage);
/// Whether an owner provides the memory of `tensor` only at times, or did so before the owner was destroyed.
bool has_temporary_memory(const at::Tensor& tensor);

/// Turns `tensor` into a contiguous tensor of the same shape at element `offset` of `storage`, on its device. All handles to `tensor` see the change.
void place_in_storage(const at::Tensor& tensor, const c10::Storage& storage, int64_t offset, c10::ScalarType dtype);

}  // namespace tw
