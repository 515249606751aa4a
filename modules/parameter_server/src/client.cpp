// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <utility>

#include "request.hpp"

namespace tw::parameter_server {

Client::Answer Client::push(Rank server, size_t rule, const Part& part) {
  const Request request{.kind = Request::Kind::push, .rule = static_cast<int32_t>(rule)};
  const auto bytes = std::as_bytes(std::span(&request, 1));
  if (part.bytes.size() <= Request::max_bytes_at_once) return call(server, Collective::send, part, {.request = bytes, .attached = part.bytes});
  return call(server, Collective::send, part, {.request = bytes, .outgoing = part.bytes});
}

Client::Answer Client::pull(Rank server, const Part& part) {
  const Request request{.kind = Request::Kind::pull};
  return call(server, Collective::receive, part, {.request = std::as_bytes(std::span(&request, 1)), .incoming = part.bytes});
}

Client::Answer Client::call(Rank server, Collective way, const Part& part, mpi::RpcClient::Message message) {
  struct Kept {
    at::Tensor of;
    std::string failure = {};
  };
  const auto kept = std::make_shared<Kept>(Kept{part.of});
  message.failure = {kept, &kept->failure};
  Work work = mpi::start(comm_, {.collective = way, .peer = server, .count = part.of.numel()}, rpc_.call(server, message));
  return {std::move(work), std::move(message.failure)};
}

}  // namespace tw::parameter_server
