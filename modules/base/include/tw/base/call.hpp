// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tw/base/element.hpp>

namespace tw {

/// What ranks do together, or one with another.
enum class Collective : uint8_t {
  none,
  barrier,
  broadcast,
  allreduce,
  reduce,
  allgather,
  reduce_scatter,
  alltoall,
  gather,
  scatter,
  send,
  receive,
  make_communicator,
};

inline constexpr int collectives = 13;

std::string_view name_of(Collective collective) noexcept;

/// One call as its ranks must agree on it: for audits, for shared memory's headers, and for the record of what a rank was last seen doing.
/// Plain bytes: it lies in shared memory.
struct Call {
  Collective collective = Collective::none;
  ReduceOp op = ReduceOp::sum;  ///< of reductions
  ElementType type = ElementType::uint8;
  bool on_device = false;  ///< of collectives: whether the tensors lie on an accelerator
  int32_t peer = -1;       ///< the root, or the other rank of a send or receive; -1: none
  int64_t count = 0;       ///< elements that this rank contributes (of a broadcast or scatter: receives)

  bool operator==(const Call&) const = default;
  /// Such as "allreduce sum of 16 float32" or "broadcast from rank 1 of 4 int64 on a device".
  std::string describe() const;
};

/// One of the parts that a call is done in, begun in their order: what is done in it, and whether the ranks have found that they were not called to
/// do the same. The other parts then end at once, so that ranks whose calls have other numbers of parts are in step afterwards.
struct CallPart {
  Call moved;
  std::shared_ptr<bool> refused;  // of the call
};

/// What a rank was last seen doing on one communicator.
struct LastSeen {
  uint64_t calls = 0;              ///< begun
  uint64_t finished = 0;           ///< ended
  Call call;                       ///< the last that was begun
  std::chrono::nanoseconds ago{};  ///< since its beginning, or since the last end where that is later
  bool left = false;               ///< it has given the communicator up, and makes no further call
};

}  // namespace tw
