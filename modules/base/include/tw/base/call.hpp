// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tw/base/element.hpp>

namespace tw {

/// A communication operation: a collective, or a message between two ranks.
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

/// The properties of a call on which its ranks must agree. Used in audits, in headers in shared memory, and in the record of a rank's last call.
/// Plain bytes, since it lies in shared memory.
struct Call {
  Collective collective = Collective::none;
  ReduceOp op = ReduceOp::sum;  ///< only for reductions
  ElementType type = ElementType::uint8;
  bool on_device = false;  ///< only for collectives: whether the tensors lie on an accelerator
  int32_t peer = -1;       ///< the root, or the other rank of a send or receive; -1: none
  int64_t count = 0;       ///< elements that this rank contributes (for a broadcast or scatter: receives)

  bool operator==(const Call&) const = default;
  /// Such as "allreduce sum of 16 float32" or "broadcast from rank 1 of 4 int64 on a device".
  std::string describe() const;
};

/// One part of a call that is split into parts, which are begun in order. `refused` is set once ranks find that their calls differ. The other parts
/// then end at once, so that ranks whose calls have different numbers of parts stay in step.
struct CallPart {
  Call moved;
  std::shared_ptr<bool> refused;  // shared by all parts of the call
};

/// The last known call of a rank on one communicator.
struct LastSeen {
  uint64_t calls = 0;              ///< calls begun
  uint64_t finished = 0;           ///< calls ended
  Call call;                       ///< the last call that was begun
  std::chrono::nanoseconds ago{};  ///< time since its beginning, or since the last end if that is later
  bool left = false;               ///< whether it has released the communicator and makes no further calls
};

}  // namespace tw
