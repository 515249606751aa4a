// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/responder.hpp>

// What goes between a Caller and a Responder. A client's openings and payloads are matched in the order of its conversations, so that none needs a
// number; their ends are told several at once, so that a server which is behind does not answer each.
namespace tw::mpi::conversation {

constexpr Tag opening_tag{0};
constexpr Tag payload_tag{1};
constexpr Tag answer_tag{2};
constexpr Tag ends_tag{3};

/// How many conversations of a client its server has ended.
struct Ends {
  int64_t count = 0;
  std::array<char, 504> failure = {};  ///< of the last of them: what was thrown; sent as far as it goes
};

/// Calls `f(bytes)` with the pieces that payloads and answers travel in.
template <class Bytes, class Function>
void for_each_piece(Bytes all, Function f) {
  constexpr size_t piece = Responder::piece_bytes;
  for (size_t at = 0; at < all.size(); at += piece) f(all.subspan(at, std::min(piece, all.size() - at)));
}

}  // namespace tw::mpi::conversation
