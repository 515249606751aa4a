// SPDX-License-Identifier: Apache-2.0
#include <tw/server_shards/shard_layout.hpp>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::parameter_server {

ShardLayout::ShardLayout(int64_t numel, int servers) : numel_(numel), servers_(servers) {
  TW_EXPECTS(numel >= 0, "a tensor must have at least 0 elements, got ", numel);
  TW_EXPECTS(servers >= 1, "a sharded tensor needs at least one server");
}

Extent ShardLayout::extent_of(int server) const noexcept {
  const int64_t each = numel_ / servers_;
  const int64_t longer = numel_ % servers_;
  const auto begin_of = [&](int64_t s) { return s * each + std::min(s, longer); };
  return {begin_of(server), begin_of(server + 1)};
}

}  // namespace tw::parameter_server
