// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <sched.h>

#include <algorithm>
#include <tw/base/concat.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/engine.hpp>
#include <tw/mpi/error.hpp>
#include <tw/mpi/responder.hpp>

#include "request.hpp"

namespace tw::parameter_server {
namespace {

using mpi::Buffer;
using mpi::Responder;

/// Several messages as one operation.
class Together : public mpi::Transfer {
 public:
  void add(std::unique_ptr<mpi::Transfer> part) { parts_.push_back(std::move(part)); }
  bool advance() override {
    std::erase_if(parts_, [](const std::unique_ptr<mpi::Transfer>& part) { return part->advance(); });
    return parts_.empty();
  }

 private:
  std::vector<std::unique_ptr<mpi::Transfer>> parts_;
};

Buffer buffer_of(void* data, int64_t bytes) { return {data, bytes, ElementType::uint8}; }

/// Calls f(buffer) for each piece of a tensor's memory.
template <class Function>
void for_each_piece(const at::Tensor& part, Function f) {
  auto* data = static_cast<std::byte*>(part.data_ptr());
  const auto bytes = static_cast<int64_t>(part.nbytes());
  for (int64_t at = 0; at < bytes; at += Responder::piece_bytes) f(buffer_of(data + at, std::min(Responder::piece_bytes, bytes - at)));
}

}  // namespace

Client::Client(const Communicator& comm) : comm_(comm), slots_(static_cast<size_t>(comm.size())) {
  for (std::vector<Slot>& each : slots_) {
    for (int i = 0; i < most_under_way; ++i) each.push_back({Responder::first_free_tag + i});
  }
}

std::shared_ptr<int> Client::take_tag(Rank server) {
  std::vector<Slot>& slots = slots_[static_cast<size_t>(server)];
  while (true) {
    const auto free = std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.user.expired(); });
    if (free != slots.end()) {
      auto tag = std::make_shared<int>(free->tag);
      free->user = tag;
      return tag;
    }
    progress(comm_);
    sched_yield();
    if (comm_.revoked()) throw RevokedError(comm_.name(), "a request to a parameter server", "");
  }
}

int64_t Client::under_way() const noexcept {
  int64_t count = 0;
  for (const std::vector<Slot>& each : slots_)
    count += std::count_if(each.begin(), each.end(), [](const Slot& slot) { return !slot.user.expired(); });
  return count;
}

Work Client::push(Rank server, size_t rule, const at::Tensor& part, const std::shared_ptr<std::string>& failure) {
  struct Kept {
    std::shared_ptr<int> tag;
    Request request;
    Reply reply = {};
    at::Tensor part;
    std::shared_ptr<std::string> failure;
  };
  const auto tag = take_tag(server);
  const auto kept =
      std::make_shared<Kept>(Kept{tag, {.kind = Request::Kind::push, .rule = static_cast<int32_t>(rule), .answer_tag = *tag}, {}, part, failure});
  auto messages = std::make_unique<Together>();
  messages->add(mpi::receive_transfer(comm_, buffer_of(&kept->reply, sizeof(Reply)), server, Tag(*tag)));
  messages->add(mpi::send_transfer(comm_, buffer_of(&kept->request, sizeof(Request)), server, Responder::opening_tag));
  for_each_piece(part, [&](const Buffer& piece) { messages->add(mpi::send_transfer(comm_, piece, server, Responder::payload_tag)); });
  return mpi::start(comm_, {.collective = Collective::send, .peer = server, .count = part.numel()}, std::move(messages), [kept, server] {
    if (kept->reply.failed == 0) return;  // a failed operation would be kept, and its tag with it
    *kept->failure = concat("the rule of a push failed on rank ", static_cast<int>(server), ": ", kept->reply.message.data());
    if (kept->failure.use_count() == 1) log_error(*kept->failure);
  });
}

Work Client::pull(Rank server, const at::Tensor& part) {
  struct Kept {
    std::shared_ptr<int> tag;
    Request request;
    at::Tensor part;
  };
  const auto tag = take_tag(server);
  const auto kept = std::make_shared<Kept>(Kept{tag, {.kind = Request::Kind::pull, .answer_tag = *tag}, part});
  auto messages = std::make_unique<Together>();
  for_each_piece(part, [&](const Buffer& piece) { messages->add(mpi::receive_transfer(comm_, piece, server, Tag(*tag))); });
  messages->add(mpi::send_transfer(comm_, buffer_of(&kept->request, sizeof(Request)), server, Responder::opening_tag));
  return mpi::start(comm_, {.collective = Collective::receive, .peer = server, .count = part.numel()}, std::move(messages), [kept] {});
}

}  // namespace tw::parameter_server
