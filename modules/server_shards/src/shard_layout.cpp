// SPDX-License-Identifier: Apache-2.0
#include <tw/server_shards/shard_layout.hpp>

#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>

namespace tw::parameter_server {

ShardLayout::ShardLayout(int64_t numel, int servers) : numel_(numel), servers_(servers) {
  TW_EXPECTS(numel >= 0, "a tensor has at least 0 elements, got ", numel);
  TW_EXPECTS(servers >= 1, "a sharded tensor needs a server");
}

Extent ShardLayout::extent_of(int server) const noexcept { return {part_begin(numel_, servers_, server), part_begin(numel_, servers_, server + 1)}; }

}  // namespace tw::parameter_server
