// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw::parameter_server {

/// The request message of a call to a server on another node; see RpcServer. A push's elements follow; if there are few, they are in the request
/// itself. The response to a pull is the shard's elements.
struct Request {
  enum class Kind : int32_t { push, pull };
  static constexpr size_t max_bytes_at_once = 2048;  ///< bytes sent in one message, which MPI sends eagerly
  Kind kind = Kind::push;
  int32_t rule = 0;
};

}  // namespace tw::parameter_server
