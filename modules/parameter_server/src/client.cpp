// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <utility>

#include "request.hpp"

namespace tw::parameter_server {

Client::Answer Client::push(Rank server, size_t rule, const Part& part) {
  const Request request{.kind = Request::Kind::push, .rule = static_cast<int32_t>(rule)};
  const auto opening = std::as_bytes(std::span(&request, 1));
  if (part.bytes.size() <= Request::most_bytes_at_once) return call(server, Collective::send, part, {.opening = opening, .attached = part.bytes});
  return call(server, Collective::send, part, {.opening = opening, .outgoing = part.bytes});
}

Client::Answer Client::pull(Rank server, const Part& part) {
  const Request request{.kind = Request::Kind::pull};
  return call(server, Collective::receive, part, {.opening = std::as_bytes(std::span(&request, 1)), .incoming = part.bytes});
}

Client::Answer Client::call(Rank server, Collective way, const Part& part, mpi::Caller::Letter letter) {
  struct Kept {
    at::Tensor of;
    std::string failure = {};
  };
  const auto kept = std::make_shared<Kept>(Kept{part.of});
  letter.failure = {kept, &kept->failure};
  Work work = mpi::start(comm_, {.collective = way, .peer = server, .count = part.of.numel()}, caller_.call(server, letter));
  return {std::move(work), std::move(letter.failure)};
}

}  // namespace tw::parameter_server
