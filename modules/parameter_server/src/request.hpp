// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw::parameter_server {

/// The request of a call with a server on another node, see RpcServer. The elements of a push follow, few of them in the request itself. A
/// pull's answer is the elements of the shard.
struct Request {
  enum class Kind : int32_t { push, pull };
  static constexpr size_t most_bytes_at_once = 2048;  ///< this many go in one message, which MPI sends without asking whether it may
  Kind kind = Kind::push;
  int32_t rule = 0;
};

}  // namespace tw::parameter_server
