// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::parameter_server {

/// Elements that lie one after the other: [begin, end).
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const noexcept { return end - begin; }
  bool operator==(const Extent&) const = default;
};

/// Which elements of a flat tensor lie on which of p servers: in their order, floor(n / p) on each, and one more on the first n mod p. Pure.
class ShardLayout {
 public:
  /// @throws ContractError unless there is a server, and numel is at least 0.
  ShardLayout(int64_t numel, int servers);

  int64_t numel() const noexcept { return numel_; }
  int servers() const noexcept { return servers_; }
  /// May be empty where n < p.
  Extent extent_of(int server) const noexcept;
  /// The server that holds `element`. @param element 0 to numel - 1
  int server_of(int64_t element) const noexcept;

 private:
  int64_t numel_;
  int servers_;
};

}  // namespace tw::parameter_server
