// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace tw::parameter_server {

/// The opening of a conversation with a server on another node, see Responder. The elements of a push follow, few of them in the opening itself. A
/// pull's answer is the elements of the shard.
struct Request {
  enum class Kind : int32_t { push, pull };
  static constexpr size_t most_bytes_at_once = 2048;  ///< so many go in one message, which MPI sends without asking whether it may
  Kind kind = Kind::push;
  int32_t rule = 0;
};

}  // namespace tw::parameter_server
