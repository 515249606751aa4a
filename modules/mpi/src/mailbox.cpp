// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/mailbox.hpp>

#include <atomic>
#include <tw/base/contract.hpp>
#include <tw/mpi/library.hpp>

#include "requests.hpp"
#include "transfer_requests.hpp"

namespace tw::mpi {
namespace {

constexpr int message_tag = 0;

}  // namespace

struct Mailbox::Slot {
  Message message;
  std::atomic<bool> closed = false;
};

/// Receives whichever message comes first. It probes before it allocates, so that it leaves no pending receive if nothing comes.
class Mailbox::Receive : public Transfer {
 public:
  Receive(const Communicator& comm, std::shared_ptr<Slot> slot) : comm_(*comm.state()), slot_(std::move(slot)) { ++comm_.traffic.open; }

  bool advance() override {
    if (request_ == MPI_REQUEST_NULL) {
      if (slot_->closed) return end();
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      check(MPI_Improbe(MPI_ANY_SOURCE, message_tag, comm_.handle, &found, &message, &status), "MPI_Improbe", comm_.name);
      if (found == 0) return false;
      int bytes = 0;
      check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count", comm_.name);
      slot_->message.from = Rank(status.MPI_SOURCE);
      slot_->message.bytes.resize(static_cast<size_t>(bytes));
      check(MPI_Imrecv(slot_->message.bytes.data(), bytes, MPI_BYTE, &message, &request_), "MPI_Imrecv", comm_.name);
    }
    if (!is_done(request_, comm_)) return false;
    ++comm_.traffic.received;
    return end();
  }

 private:
  bool end() {
    --comm_.traffic.open;
    return true;
  }

  CommunicatorState& comm_;  // kept alive by the operation
  std::shared_ptr<Slot> slot_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

Mailbox::Mailbox(const Communicator& comm)
    : comm_(comm.dup()), sent_(static_cast<size_t>(comm.size()), 0), received_(static_cast<size_t>(comm.size()), 0) {
  expect_next();
}

Mailbox::~Mailbox() { slot_->closed = true; }

void Mailbox::expect_next() {
  slot_ = std::make_shared<Slot>();
  receive_ = start(comm_, {.collective = Collective::receive}, std::make_unique<Receive>(comm_, slot_));
}

void Mailbox::take_in() {
  while (receive_.test()) {
    waiting_.push_back(std::move(slot_->message));
    expect_next();
  }
  std::erase_if(sends_, [](Sent& sent) { return sent.work.done() && sent.work.test(); });  // test() of an unfinished one advances the engine
}

void Mailbox::send(std::vector<std::byte> bytes, Rank to) {
  const auto max_bytes = static_cast<size_t>(comm_.state()->runtime->largest_message());  // a longer message would arrive in pieces
  TW_EXPECTS(!bytes.empty() && bytes.size() <= max_bytes, "a message must have 1 to ", max_bytes, " bytes, got ", bytes.size());
  TW_EXPECTS(to >= 0 && to < comm_.size(), "rank ", to, " is not a rank of '", comm_.name(), "', so no message can be sent to it");
  drain_to(max_in_flight - 1);
  ++sent_[static_cast<size_t>(to)];
  const auto kept = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  const Call call{.collective = Collective::send, .peer = to, .count = static_cast<int64_t>(kept->size())};
  auto requests = std::make_unique<TransferRequests>(comm_);
  requests->send(raw(*kept), to, message_tag);
  sends_.push_back({call, start(comm_, call, std::move(requests), [kept] {})});
}

std::optional<Mailbox::Message> Mailbox::take() {
  if (next_ == waiting_.size()) {
    waiting_.clear();
    next_ = 0;
    take_in();
    if (waiting_.empty()) return std::nullopt;
  }
  Message message = std::move(waiting_[next_++]);
  ++received_[static_cast<size_t>(message.from)];
  return message;
}

std::optional<Mailbox::Message> Mailbox::take_within(std::chrono::nanoseconds timeout) {
  if (auto message = take()) return message;
  if (!receive_.wait_for(timeout)) return std::nullopt;
  return take();
}

void Mailbox::drain_to(size_t messages) {
  while (sends_.size() > messages) {
    const size_t before = sends_.size();
    wait_until(comm_, Call(sends_.front().call), [&] {
      take_in();
      return sends_.size() < before;
    });
  }
}

}  // namespace tw::mpi
