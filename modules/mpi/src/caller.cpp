// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/caller.hpp>

#include <sched.h>

#include <algorithm>
#include <tw/mpi/responder.hpp>

#include "requests.hpp"

namespace tw::mpi {

/// Those of one conversation. They are looked at when all conversations before it have ended: so a look takes the same time however many there are.
class Caller::Messages : public Transfer {
 public:
  Messages(const CommunicatorState& comm, int rank, const Letter& letter, std::shared_ptr<Counts> counts)
      : comm_(comm), counts_(std::move(counts)), number_(counts_->begun++) {
    constexpr int64_t piece = Responder::piece_bytes;
    const auto pieces = [](auto bytes) { return (bytes.size() + piece - 1) / piece; };
    requests_.reserve(1 + pieces(letter.outgoing) + pieces(letter.incoming));
    for_each_piece(letter.incoming, [&](auto bytes) {
      check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, Responder::answer_tag, comm_.handle, next_request()), "MPI_Irecv",
            comm_.name);
    });
    send(letter.opening, rank, Responder::opening_tag);
    for_each_piece(letter.outgoing, [&](auto bytes) { send(bytes, rank, Responder::payload_tag); });
  }

  bool advance() override {
    if (counts_->ended.load(std::memory_order_relaxed) != number_) return false;
    while (!requests_.empty()) {
      if (!is_done(requests_.back(), comm_)) return false;
      requests_.pop_back();
    }
    counts_->ended.store(number_ + 1, std::memory_order_relaxed);
    return true;
  }

 private:
  template <class Bytes, class Function>
  static void for_each_piece(Bytes bytes, Function f) {
    constexpr size_t piece = Responder::piece_bytes;
    for (size_t at = 0; at < bytes.size(); at += piece) f(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  }
  MPI_Request* next_request() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void send(std::span<const std::byte> bytes, int rank, int tag) {
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, tag, comm_.handle, next_request()), "MPI_Isend", comm_.name);
  }

  const CommunicatorState& comm_;  // kept alive by the operation
  std::shared_ptr<Counts> counts_;
  int64_t number_;
  std::vector<MPI_Request> requests_;
};

Caller::Caller(const Communicator& comm) : comm_(comm) {
  for (int rank = 0; rank < comm.size(); ++rank) counts_.push_back(std::make_shared<Counts>());
}

std::unique_ptr<Transfer> Caller::call(Rank rank, const Letter& letter) {
  const std::shared_ptr<Counts>& counts = counts_[static_cast<size_t>(rank)];
  while (counts->begun - counts->ended >= most_under_way) {
    progress(comm_);
    expect_not_revoked(*comm_.state(), "a conversation");
    if (counts->begun - counts->ended >= most_under_way) sched_yield();
  }
  expect_not_revoked(*comm_.state(), "a conversation");
  return std::make_unique<Messages>(*comm_.state(), rank, letter, counts);
}

int64_t Caller::under_way() const noexcept {
  int64_t count = 0;
  for (const auto& each : counts_) count += each->begun - each->ended;
  return count;
}

}  // namespace tw::mpi
