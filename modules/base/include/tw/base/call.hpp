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
  int64_t count = 0;       ///< elements of this rank's input; of the output for a receive; 0 if sizes differ by rank, as in a gather

  bool operator==(const Call&) const = default;
  /// A description such as "allreduce sum of 16 float32" or "broadcast from rank 1 of 4 int64 on a device".
  std::string describe() const;
};

/// One part of a call that is split into parts. The parts start in order. `refused` is set once the ranks find that their calls differ. The remaining
/// parts then end at once. This keeps ranks in step even if their calls have different numbers of parts.
struct CallPart {
  Call moved;                     // the call, with the number of elements of this part
  std::shared_ptr<bool> refused;  // shared by all parts of the call
};

/// What is known of a rank's calls on one communicator.
struct LastSeen {
  uint64_t calls = 0;               ///< number of calls that have begun
  uint64_t finished = 0;            ///< number of calls that have ended
  Call call;                        ///< the last call that was begun
  std::chrono::nanoseconds idle{};  ///< time since a call last began or ended
  bool has_released = false;        ///< whether the rank has released the communicator; it then makes no further calls
};

}  // namespace tw
