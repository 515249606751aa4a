// SPDX-License-Identifier: Apache-2.0
// Memory that is told of before an operator of LibTorch takes it, on any thread: what hooks of modules are elsewhere.
#pragma once
#include <c10/core/Allocator.h>

#include <memory>
#include <span>

namespace tw {

struct WatchedMemory;

/// What operators are about to take.
struct Taken {
  WatchedMemory* memory;
  bool written;  ///< false where it is not known: of memory that does not ask
};

/// Whom memory belongs to.
class MemoryOwner {
 public:
  virtual ~MemoryOwner() = default;
  /// An operator is about to take `taken`, perhaps memory of others, too. @param outermost no other operator is under way on this thread. What it
  /// throws LibTorch would swallow: it throws nothing.
  virtual void before_operator(std::span<const Taken> taken, bool outermost) noexcept = 0;
};

struct WatchedMemory {
  MemoryOwner* owner;        ///< null when it is gone
  size_t index = 0;          ///< the owner's number for it
  bool asks_writes = false;  ///< `written` is to be looked up, which takes a microsecond
};

/// A pointer for a storage to hold. @param keeps lives as long
at::DataPtr watched(void* data, std::shared_ptr<WatchedMemory> memory, std::shared_ptr<void> keeps, c10::Device device);

/// While one lives, owners hear of operators. Not to be made or ended while another thread runs operators.
class OperatorWatch {
 public:
  OperatorWatch();
  ~OperatorWatch();
  OperatorWatch(const OperatorWatch&) = delete;
  OperatorWatch& operator=(const OperatorWatch&) = delete;
};

}  // namespace tw
