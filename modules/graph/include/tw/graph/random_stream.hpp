// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::graph {

/// Replays of a graph draw random numbers that depend on the pass, the operator and the row. If ranks need different numbers, such as for the slices
/// of a tensor, let a RandomStream exist while the module draws them: operators that this thread calls then belong to that stream in captured graphs,
/// and operators of different streams draw different numbers.
class RandomStream {
 public:
  /// @param number of the stream. Outside of streams, it is 0
  explicit RandomStream(uint64_t number) noexcept;
  ~RandomStream();
  RandomStream(const RandomStream&) = delete;
  RandomStream& operator=(const RandomStream&) = delete;

  /// The number of this thread's current stream.
  static uint64_t here() noexcept;

 private:
  uint64_t before_;
};

}  // namespace tw::graph
