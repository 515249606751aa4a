// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <span>
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

Buffer buffer_of(void* data, int64_t bytes) { return {data, bytes, ElementType::uint8}; }

std::vector<std::byte> opening(const Request& request, std::span<const std::byte> elements = {}) {
  std::vector<std::byte> bytes(sizeof(Request) + elements.size());
  std::memcpy(bytes.data(), &request, sizeof(Request));
  if (!elements.empty()) std::memcpy(bytes.data() + sizeof(Request), elements.data(), elements.size());
  return bytes;
}

/// Calls f(buffer) for each piece of a part's memory.
template <class Function>
void for_each_piece(const Part& part, Function f) {
  for (int64_t at = 0; at < part.bytes; at += Responder::piece_bytes) {
    f(buffer_of(part.data + at, std::min(Responder::piece_bytes, part.bytes - at)));
  }
}

}  // namespace

/// Those of one request. They are under way at once, and looked at when all requests before it have been answered: so a look takes the same time
/// however many there are.
class Client::Messages : public mpi::Transfer {
 public:
  Messages(const Communicator& comm, Rank server, std::shared_ptr<Counts> counts)
      : comm_(comm), server_(server), counts_(std::move(counts)), number_(counts_->begun++) {}

  void send(const Buffer& buffer, Tag tag) { parts_.push_back(mpi::send_transfer(comm_, buffer, server_, tag)); }
  void receive(const Buffer& buffer) { parts_.push_back(mpi::receive_transfer(comm_, buffer, server_, Responder::answer_tag)); }

  bool advance() override {
    if (counts_->answered.load(std::memory_order_relaxed) != number_) return false;
    while (!parts_.empty() && parts_.back()->advance()) parts_.pop_back();
    if (!parts_.empty()) return false;
    counts_->answered.store(number_ + 1, std::memory_order_relaxed);
    return true;
  }

 private:
  const Communicator& comm_;
  Rank server_;
  std::shared_ptr<Counts> counts_;
  int64_t number_;
  std::vector<std::unique_ptr<mpi::Transfer>> parts_;
};

Client::Client(const Communicator& comm) : comm_(comm) {
  for (int server = 0; server < comm.size(); ++server) counts_.push_back(std::make_shared<Counts>());
}

std::unique_ptr<Client::Messages> Client::next_messages(Rank server) {
  const std::shared_ptr<Counts>& counts = counts_[static_cast<size_t>(server)];
  while (counts->begun - counts->answered >= most_under_way) {
    progress(comm_);
    if (counts->begun - counts->answered < most_under_way) break;
    sched_yield();
    if (comm_.revoked()) throw RevokedError(comm_.name(), "a request to a parameter server", "");
  }
  return std::make_unique<Messages>(comm_, server, counts);
}

int64_t Client::under_way() const noexcept {
  int64_t count = 0;
  for (const auto& each : counts_) count += each->begun - each->answered;
  return count;
}

Work Client::push(Rank server, size_t rule, const Part& part, const std::shared_ptr<std::string>& failure) {
  struct Kept {
    std::vector<std::byte> opening;
    at::Tensor pushed;
    std::shared_ptr<std::string> failure;
    Reply reply = {};
  };
  const bool at_once = part.bytes <= Request::most_bytes_at_once;
  const std::span<const std::byte> elements(part.data, at_once ? static_cast<size_t>(part.bytes) : 0);
  const auto kept =
      std::make_shared<Kept>(Kept{opening({.kind = Request::Kind::push, .rule = static_cast<int32_t>(rule)}, elements), part.of, failure});
  auto messages = next_messages(server);
  messages->receive(buffer_of(&kept->reply, sizeof(Reply)));
  messages->send(buffer_of(kept->opening.data(), static_cast<int64_t>(kept->opening.size())), Responder::opening_tag);
  if (!at_once) for_each_piece(part, [&](const Buffer& piece) { messages->send(piece, Responder::payload_tag); });
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
  const auto kept = std::make_shared<Kept>(Kept{opening({.kind = Request::Kind::pull}), part.of});
  auto messages = next_messages(server);
  for_each_piece(part, [&](const Buffer& piece) { messages->receive(piece); });
  messages->send(buffer_of(kept->opening.data(), static_cast<int64_t>(kept->opening.size())), Responder::opening_tag);
  return mpi::start(comm_, {.collective = Collective::receive, .peer = server, .count = part.of.numel()}, std::move(messages), [kept] {});
}

}  // namespace tw::parameter_server
