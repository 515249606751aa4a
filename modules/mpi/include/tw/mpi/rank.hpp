// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw {

/// A rank in a communicator: 0 to size - 1. The constructor is explicit, so that a count cannot be passed as a root by mistake. Converts to int.
class Rank {
 public:
  constexpr explicit Rank(int value) noexcept : value_(value) {}
  constexpr operator int() const noexcept { return value_; }

 private:
  int value_;
};

/// A number from 0 to Tag::largest that distinguishes messages between two ranks. Larger tags are reserved for the library.
class Tag {
 public:
  static constexpr int largest = 32759;
  constexpr explicit Tag(int value) noexcept : value_(value) {}
  constexpr operator int() const noexcept { return value_; }

 private:
  int value_;
};

}  // namespace tw
