// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/rpc_server.hpp>
#include <tw/server_shards/shard.hpp>

namespace tw::parameter_server {

/// The handler of a server for requests from ranks on other nodes.
mpi::RpcServer::Handler handler_for(Shard shard, int64_t element_bytes);

}  // namespace tw::parameter_server
