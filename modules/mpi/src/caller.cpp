// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/caller.hpp>

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/log.hpp>
#include <tw/mpi/responder.hpp>
#include <utility>

#include "conversation.hpp"
#include "requests.hpp"

namespace tw::mpi {
namespace {

/// Calls `f(bytes)` with the pieces that payloads and answers travel in.
template <class Bytes, class Function>
void for_each_piece(Bytes all, Function f) {
  constexpr size_t piece = Responder::piece_bytes;
  for (size_t at = 0; at < all.size(); at += piece) f(all.subspan(at, std::min(piece, all.size() - at)));
}

}  // namespace

/// The conversations with one rank. Their numbers, and their openings, are the caller's; what happens to them then happens inside the engine.
class Caller::Line {
 public:
  Line(const CommunicatorState& comm, int rank) : comm_(comm), rank_(rank) {}

  struct Beginning {
    int64_t number;
    std::span<const std::byte> opening;  ///< until the end of the conversation
  };
  Beginning begin(const Letter& letter) {
    const int64_t number = begun_++;
    auto& kept = openings_[static_cast<size_t>(number % most_under_way)];
    const auto rest = std::copy(letter.opening.begin(), letter.opening.end(), kept.begin());
    const auto end = std::copy(letter.attached.begin(), letter.attached.end(), rest);
    return {number, {kept.begin(), end}};
  }
  int64_t under_way() const { return begun_ - ended_.load(std::memory_order_acquire); }

  /// Whether all before it have ended, and the other side has ended this one. Only the oldest listens: so a look takes the same time however many
  /// there are.
  bool can_end(int64_t number) {
    if (number != ended_.load(std::memory_order_relaxed)) return false;
    if (number == told_) listen();
    return number < told_;
  }

  /// Ends the oldest. @return what the other side threw, or nothing
  std::string end() {
    const int64_t ended = ended_.fetch_add(1, std::memory_order_release) + 1;
    return ended == told_ ? std::exchange(failure_, {}) : std::string();
  }

 private:
  void listen() {
    if (request_ == MPI_REQUEST_NULL) {
      heard_ = {};
      check(MPI_Irecv(&heard_, sizeof heard_, MPI_BYTE, rank_, conversation::ends_tag, comm_.handle, &request_), "MPI_Irecv", comm_.name);
    }
    if (!is_done(request_, comm_)) return;
    told_ = heard_.count;
    if (heard_.failure.front() != 0) failure_ = concat("on rank ", rank_, ": ", heard_.failure.data());
  }

  const CommunicatorState& comm_;  // kept alive by the operations
  int rank_;
  int64_t begun_ = 0;
  std::array<std::array<std::byte, most_opening_bytes>, most_under_way> openings_;
  int64_t told_ = 0;  // how many the other side has ended
  std::atomic<int64_t> ended_ = 0;
  conversation::Ends heard_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::string failure_;  // of the last of them
};

/// The messages of one conversation.
class Caller::Messages : public Transfer {
 public:
  Messages(const CommunicatorState& comm, int rank, const Letter& letter, std::shared_ptr<Line> line)
      : comm_(comm), line_(std::move(line)), failure_(letter.failure ? letter.failure : std::make_shared<std::string>()) {
    constexpr int64_t piece = Responder::piece_bytes;
    const auto pieces = [](auto bytes) { return (bytes.size() + piece - 1) / piece; };
    pieces_.reserve(pieces(letter.outgoing) + pieces(letter.incoming));
    for_each_piece(letter.incoming, [&](auto bytes) {
      check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, conversation::answer_tag, comm_.handle,
                      &pieces_.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Irecv", comm_.name);
    });
    const auto [number, opening] = line_->begin(letter);
    number_ = number;
    send(opening, rank, conversation::opening_tag, opening_);
    for_each_piece(letter.outgoing, [&](auto bytes) { send(bytes, rank, conversation::payload_tag, pieces_.emplace_back(MPI_REQUEST_NULL)); });
  }

  bool advance() override {
    if (!line_->can_end(number_) || !is_done(opening_, comm_)) return false;
    while (!pieces_.empty()) {
      if (!is_done(pieces_.back(), comm_)) return false;
      pieces_.pop_back();
    }
    *failure_ = line_->end();
    if (!failure_->empty() && failure_.use_count() == 1) log_error(concat("a conversation failed: ", *failure_));
    return true;
  }

 private:
  void send(std::span<const std::byte> bytes, int rank, int tag, MPI_Request& request) {
    check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, rank, tag, comm_.handle, &request), "MPI_Isend", comm_.name);
  }

  const CommunicatorState& comm_;  // kept alive by the operation
  std::shared_ptr<Line> line_;
  int64_t number_ = 0;
  std::shared_ptr<std::string> failure_;
  MPI_Request opening_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> pieces_;
};

Caller::Caller(const Communicator& comm) : comm_(comm), lines_(static_cast<size_t>(comm.size())) {}

std::unique_ptr<Transfer> Caller::call(Rank rank, const Letter& letter) {
  const size_t bytes = letter.opening.size() + letter.attached.size();
  TW_EXPECTS(bytes <= most_opening_bytes, "an opening has ", most_opening_bytes, " bytes at most, not ", bytes);
  std::shared_ptr<Line>& line = lines_[static_cast<size_t>(rank)];
  if (!line) line = std::make_shared<Line>(*comm_.state(), rank);
  while (line->under_way() >= most_under_way) {
    progress(comm_);
    expect_not_revoked(*comm_.state(), "a conversation");
    if (line->under_way() >= most_under_way) sched_yield();
  }
  expect_not_revoked(*comm_.state(), "a conversation");
  return std::make_unique<Messages>(*comm_.state(), rank, letter, line);
}

int64_t Caller::under_way() const noexcept {
  int64_t count = 0;
  for (const auto& line : lines_) count += line ? line->under_way() : 0;
  return count;
}

}  // namespace tw::mpi
