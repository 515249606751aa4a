// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <cstring>
#include <tw/base/concat.hpp>
#include <tw/base/log.hpp>
#include <vector>

#include "request.hpp"

namespace tw::parameter_server {
namespace {

std::vector<std::byte> opening_of(const Request& request, std::span<const std::byte> elements = {}) {
  std::vector<std::byte> bytes(sizeof(Request) + elements.size());
  std::memcpy(bytes.data(), &request, sizeof(Request));
  if (!elements.empty()) std::memcpy(bytes.data() + sizeof(Request), elements.data(), elements.size());
  return bytes;
}

}  // namespace

Work Client::push(Rank server, size_t rule, const Part& part, const std::shared_ptr<std::string>& failure) {
  struct Kept {
    std::vector<std::byte> opening;
    at::Tensor pushed;
    std::shared_ptr<std::string> failure;
    Reply reply = {};
  };
  const bool at_once = part.bytes.size() <= Request::most_bytes_at_once;
  const std::span<const std::byte> none;
  const Request request{.kind = Request::Kind::push, .rule = static_cast<int32_t>(rule)};
  const auto kept = std::make_shared<Kept>(Kept{opening_of(request, at_once ? part.bytes : none), part.of, failure});
  auto messages = caller_.call(
      server, {.opening = kept->opening, .outgoing = at_once ? none : part.bytes, .incoming = std::as_writable_bytes(std::span(&kept->reply, 1))});
  return mpi::start(comm_, {.collective = Collective::send, .peer = server, .count = part.of.numel()}, std::move(messages), [kept, server] {
    if (kept->reply.failed == 0) return;  // a failed operation would be kept, and its memory with it
    *kept->failure = concat("the rule of a push failed on rank ", static_cast<int>(server), ": ", kept->reply.message.data());
    if (kept->failure.use_count() == 1) log_error(*kept->failure);
  });
}

Work Client::pull(Rank server, const Part& part) {
  struct Kept {
    std::vector<std::byte> opening;
    at::Tensor out;
  };
  const auto kept = std::make_shared<Kept>(Kept{opening_of({.kind = Request::Kind::pull}), part.of});
  auto messages = caller_.call(server, {.opening = kept->opening, .incoming = part.bytes});
  return mpi::start(comm_, {.collective = Collective::receive, .peer = server, .count = part.of.numel()}, std::move(messages), [kept] {});
}

}  // namespace tw::parameter_server
