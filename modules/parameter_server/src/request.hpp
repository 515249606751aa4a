// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>

namespace tw::parameter_server {

/// The opening of a conversation with a server on another node, see Responder. A push's elements follow; a Reply comes back. A pull's answer is the
/// elements of the shard.
struct Request {
  enum class Kind : int32_t { push, pull };
  Kind kind = Kind::push;
  int32_t rule = 0;
  int32_t answer_tag = 0;
  int32_t unused = 0;
};

/// What became of a push.
struct Reply {
  int32_t failed = 0;
  std::array<char, 252> message = {};  ///< of what the rule threw; ends with a zero
};

}  // namespace tw::parameter_server
