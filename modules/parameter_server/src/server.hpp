// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/mpi/responder.hpp>
#include <tw/shards/shard.hpp>

namespace tw::parameter_server {

/// What a server does with the requests of ranks on other nodes.
mpi::Responder::Handler handler_for(Shard shard, int64_t element_bytes);

}  // namespace tw::parameter_server
