// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "request.hpp"

namespace tw::parameter_server {
namespace {

using mpi::RpcServer;

/// Pieces are applied as they arrive, and count as one push.
RpcServer::Exchange taking_push(Shard shard, Shard::Entry entry, const Request& request, int64_t element_bytes) {
  const auto kept = std::make_shared<const Shard::Entry>(std::move(entry));
  return {
      .incoming = shard.count() * element_bytes,
      .take =
          [shard, kept, request, element_bytes, next = int64_t{0}](std::span<const std::byte> piece) mutable {
            const int64_t count = static_cast<int64_t>(piece.size()) / element_bytes;
            shard.push(*kept, static_cast<size_t>(request.rule), std::exchange(next, next + count), count, piece.data());
          },
  };
}

RpcServer::Exchange giving_values(const Shard& shard, int64_t element_bytes) {
  return {
      .answer =
          [shard, element_bytes, next = int64_t{0}](std::vector<std::byte>& piece) mutable {
            const int64_t count = std::min(RpcServer::piece_bytes / element_bytes, shard.count() - next);
            piece.resize(static_cast<size_t>(count * element_bytes));
            shard.pull(std::exchange(next, next + count), count, piece.data());
          },
  };
}

}  // namespace

RpcServer::Handler handler_for(Shard shard, int64_t element_bytes) {
  return [shard = std::move(shard), element_bytes](Rank, std::span<const std::byte> bytes) mutable -> std::optional<RpcServer::Exchange> {
    Request request;
    std::memcpy(&request, bytes.data(), std::min(bytes.size(), sizeof(request)));
    if (request.kind == Request::Kind::pull) return giving_values(shard, element_bytes);
    std::optional<Shard::Entry> entry = shard.enter();
    if (!entry) return std::nullopt;
    const auto elements = bytes.subspan(std::min(bytes.size(), sizeof(request)));
    if (elements.empty()) return taking_push(shard, std::move(*entry), request, element_bytes);
    shard.push(*entry, static_cast<size_t>(request.rule), 0, static_cast<int64_t>(elements.size()) / element_bytes, elements.data());
    return RpcServer::Exchange();
  };
}

}  // namespace tw::parameter_server
