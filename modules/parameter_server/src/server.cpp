// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "request.hpp"

namespace tw::parameter_server {
namespace {

using mpi::Responder;

/// No longer than it need be.
std::vector<std::byte> reply_of(const std::string& failure) {
  Reply reply{.failed = failure.empty() ? 0 : 1};
  const size_t length = failure.empty() ? 0 : failure.copy(reply.message.data(), reply.message.size() - 1) + 1;
  const auto* begin = reinterpret_cast<const std::byte*>(&reply);
  return {begin, begin + offsetof(Reply, message) + length};
}

/// Applies a rule; what it throws, as text, or nothing.
std::string failure_of_push(Shard& shard, const Request& request, int64_t begin, std::span<const std::byte> elements, int64_t element_bytes) {
  try {
    shard.push(static_cast<size_t>(request.rule), begin, static_cast<int64_t>(elements.size()) / element_bytes, elements.data());
    return {};
  } catch (const std::exception& error) {
    return *error.what() == 0 ? "an exception" : error.what();
  } catch (...) {
    return "an exception";
  }
}

Responder::Conversation replying(const std::string& failure) {
  return {.give = [reply = reply_of(failure)](std::vector<std::byte>& piece) mutable { piece = std::exchange(reply, {}); }};
}

Responder::Conversation taking_push(const Shard& shard, const Request& request, int64_t element_bytes) {
  struct Progress {
    Shard shard;
    int64_t next = 0;  // element
    std::string failure = {};
    bool answered = false;
  };
  const auto progress = std::make_shared<Progress>(Progress{shard});
  return {
      .incoming = shard.count() * element_bytes,
      .take =
          [progress, request, element_bytes](std::span<const std::byte> piece) {
            const int64_t begin = std::exchange(progress->next, progress->next + static_cast<int64_t>(piece.size()) / element_bytes);
            if (progress->failure.empty()) progress->failure = failure_of_push(progress->shard, request, begin, piece, element_bytes);
          },
      .give =
          [progress](std::vector<std::byte>& piece) {
            piece = std::exchange(progress->answered, true) ? std::vector<std::byte>() : reply_of(progress->failure);
          },
  };
}

Responder::Conversation giving_values(const Shard& shard, int64_t element_bytes) {
  const auto next = std::make_shared<int64_t>(0);  // element
  return {
      .give =
          [shard, next, element_bytes](std::vector<std::byte>& piece) {
            const int64_t count = std::min(Responder::piece_bytes / element_bytes, shard.count() - *next);
            piece.resize(static_cast<size_t>(count * element_bytes));
            shard.pull(std::exchange(*next, *next + count), count, piece.data());
          },
  };
}

}  // namespace

Responder::Handler handler_for(Shard shard, int64_t element_bytes) {
  return [shard = std::move(shard), element_bytes](Rank, std::span<const std::byte> opening) mutable {
    Request request;
    std::memcpy(&request, opening.data(), std::min(opening.size(), sizeof(request)));
    if (request.kind == Request::Kind::pull) return giving_values(shard, element_bytes);
    const auto elements = opening.subspan(std::min(opening.size(), sizeof(request)));
    return elements.empty() ? taking_push(shard, request, element_bytes) : replying(failure_of_push(shard, request, 0, elements, element_bytes));
  };
}

}  // namespace tw::parameter_server
