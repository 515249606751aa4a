// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <tw/mpi/communicator.hpp>

// What goes between a RpcClient and a RpcServer. A client's requests and payloads are matched in the order of its calls, so that none needs a
// number; their ends are told several at once, so that a server which is behind does not answer each.
namespace tw::mpi::rpc {

constexpr Tag request_tag{0};  // empty: the client has left
constexpr Tag payload_tag{1};
constexpr Tag response_tag{2};
constexpr Tag ends_tag{3};

/// How many calls of a client its server has ended.
struct Ends {
  int64_t count = 0;
  std::array<char, 504> failure = {};  ///< of the last of them: what was thrown; sent as far as it goes
};

}  // namespace tw::mpi::rpc
