// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <tw/mpi/communicator.hpp>

// Messages between an RpcClient and an RpcServer. A client's requests and payloads are matched in the order of its calls, so none needs a number. One
// message reports the ends of several calls, so a server that lags need not answer each.
namespace tw::mpi::rpc {

constexpr Tag request_tag{0};  // empty: the client has left
constexpr Tag payload_tag{1};
constexpr Tag response_tag{2};
constexpr Tag ends_tag{3};

/// The number of a client's calls that its server has ended.
struct Ends {
  int64_t count = 0;
  std::array<char, 504> failure = {};  ///< error thrown by the last of them; only its used part is sent
};

}  // namespace tw::mpi::rpc
