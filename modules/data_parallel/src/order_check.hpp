// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw {

/// Compares what the ranks do one after the other, which must be the same on all: each tells the others a number, 8 bytes that travel beside the
/// work.
class OrderCheck {
 public:
  /// @param comm borrowed; carries nothing else
  explicit OrderCheck(const Communicator& comm) : comm_(comm) {}

  /// This rank does `what` next. Returns at once. @return the number of the event
  int64_t begin(int64_t what);
  /// Waits until all ranks have begun events up to `event`. @return by rank what each does, at the first event where they differ
  std::optional<std::vector<int64_t>> difference_up_to(int64_t event);

 private:
  struct Event {
    at::Tensor of_ranks;
    Work exchange;
  };
  const Communicator& comm_;
  std::deque<Event> open_;
  int64_t begun_ = 0;
};

}  // namespace tw
