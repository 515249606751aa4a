// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw {

/// A rank in a communicator: 0 to size - 1. Made explicitly, so that a count is not taken for a root; reads as an int.
class Rank {
 public:
  constexpr explicit Rank(int value) noexcept : value_(value) {}
  constexpr operator int() const noexcept { return value_; }

 private:
  int value_;
};

/// Tells messages between two ranks apart: 0 to Tag::largest. Those above serve the library itself.
class Tag {
 public:
  static constexpr int largest = 32759;
  constexpr explicit Tag(int value) noexcept : value_(value) {}
  constexpr operator int() const noexcept { return value_; }

 private:
  int value_;
};

}  // namespace tw
