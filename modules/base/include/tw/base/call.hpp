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

/// The properties of a communication call on which its ranks must agree. Used in audits, in shared-memory headers, and in the record of a rank's last
/// call. Trivially copyable, because it is stored in shared memory.
struct Call {
  Collective collective = Collective::none;
  ReduceOp op = ReduceOp::sum;  ///< only for reductions
  ElementType type = ElementType::uint8;
  bool on_device = false;  ///< only for collectives: whether the tensors lie on an accelerator
  int32_t peer = -1;       ///< the root, or the other rank of a send or receive; -1: none
  int64_t count = 0;       ///< elements that this rank contributes (for a broadcast or scatter: receives)

  bool operator==(const Call&) const = default;
  /// A description such as "allreduce sum of 16 float32" or "broadcast from rank 1 of 4 int64 on a device".
  std::string describe() const;
};

/// One part of a call that is split into parts, which start in order. `refused` is set once ranks find that their calls differ. The other parts then
/// end at once, so that ranks whose calls have different numbers of parts stay in step.
struct CallPart {
  Call moved;                     // the call, with the number of elements of this part
  std::shared_ptr<bool> refused;  // shared by all parts of the call
};

/// The last known call of a rank on one communicator.
struct LastSeen {
  uint64_t calls = 0;               ///< number of calls that have begun
  uint64_t finished = 0;            ///< number of calls that have ended
  Call call;                        ///< the last call that was begun
  std::chrono::nanoseconds idle{};  ///< time since a call last began or ended
  bool has_released = false;        ///< whether the rank has released the communicator; it then makes no further calls
};

}  // namespace tw
