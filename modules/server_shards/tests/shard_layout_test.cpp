// SPDX-License-Identifier: Apache-2.0
// Every element is on one server, in order; lengths differ by at most one, longer ones first.
#include <gtest/gtest.h>

#include <tw/base/contract.hpp>
#include <tw/server_shards/shard_layout.hpp>

namespace tw::parameter_server {
namespace shard_layout_test {

TEST(ShardLayout, PutsEachElementOnOneServer) {
  for (int servers = 1; servers <= 9; ++servers) {
    for (int64_t numel = 0; numel <= 40; ++numel) {
      const ShardLayout layout(numel, servers);
      int64_t next = 0;
      for (int server = 0; server < servers; ++server) {
        const Extent extent = layout.extent_of(server);
        ASSERT_EQ(extent.begin, next);
        ASSERT_EQ(extent.size(), numel / servers + (server < numel % servers ? 1 : 0));
        next = extent.end;
      }
      ASSERT_EQ(next, numel);
    }
  }
}

TEST(ShardLayout, NeedsAServer) {
  EXPECT_THROW(ShardLayout(4, 0), ContractError);
  EXPECT_THROW(ShardLayout(-1, 2), ContractError);
}

}  // namespace shard_layout_test
}  // namespace tw::parameter_server
