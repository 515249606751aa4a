// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::parameter_server {

/// Consecutive elements: [begin, end).
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const noexcept { return end - begin; }
  bool operator==(const Extent&) const = default;
};

/// Assigns the n elements of a flat tensor to p servers, in order. Each server gets floor(n / p) elements, and each of the first n mod p servers one
/// more. Pure.
class ShardLayout {
 public:
  /// @throws ContractError unless there is at least one server and numel is at least 0.
  ShardLayout(int64_t numel, int servers);

  int64_t numel() const noexcept { return numel_; }
  int servers() const noexcept { return servers_; }
  /// The elements of `server`. Empty for some servers if numel() < servers().
  Extent extent_of(int server) const noexcept;

 private:
  int64_t numel_;
  int servers_;
};

}  // namespace tw::parameter_server
