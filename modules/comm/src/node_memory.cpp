// SPDX-License-Identifier: Apache-2.0
#include "node_memory.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <tw/base/concat.hpp>
#include <tw/base/error.hpp>
#include <tw/mpi/collectives.hpp>

namespace tw {
namespace {

template <size_t size>
void put(std::array<char, size>& place, const std::string& text) {
  std::memcpy(place.data(), text.data(), std::min(text.size(), size - 1));
}

void add(std::string& all, const std::string& more) {
  if (!more.empty()) all += (all.empty() ? "" : "; ") + more;
}

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Ends when the memory is made; keeps it if that never happens, because MPI may still write into it.
class Making : public mpi::Transfer {
 public:
  Making(const Communicator& comm, std::shared_ptr<NodeMemory> memory) : comm_(comm), memory_(std::move(memory)) {}
  bool advance() override { return memory_->advance(comm_); }

 private:
  const Communicator& comm_;  // outlives this, since the caller waits
  std::shared_ptr<NodeMemory> memory_;
};

}  // namespace

template <class Step>
void NodeMemory::attempt(Step step) {
  try {
    step();
  } catch (const Error& error) {
    failure_ = concat("rank ", rank_, ": ", error.what());
  }
}

// a. The lowest rank of each node makes the memory and listens on a socket.
// b. All ranks exchange the sockets' addresses, or the errors. Only this step is an MPI collective, started with the memory; later steps run whenever
//    their messages arrive, interleaved with other operations.
// c. The lowest rank of each node hands the descriptor to its neighbours, and every rank maps it.
// d. All ranks learn whether that succeeded everywhere: see children_.
NodeMemory::NodeMemory(const Communicator& comm, std::vector<int> neighbours, int64_t bytes)
    : rank_(comm.rank()), neighbours_(std::move(neighbours)), bytes_(bytes), offers_(static_cast<size_t>(comm.size())) {
  mine_.first = neighbours_.front();
  if (leads()) {
    attempt([&] {
      memory_ = shared_memory::make_memory(bytes_);
      server_.emplace();
      put(mine_.address, server_->address());
    });
  }
  put(mine_.failure, failure_);
  const std::vector<int64_t> sizes(offers_.size(), sizeof(Offer));
  exchange_ = mpi::allgather_transfer(comm, bytes_of(mine_), std::as_writable_bytes(std::span(offers_)).data(), sizes);
}

bool NodeMemory::advance(const Communicator& comm) {
  if (stage_ == Stage::offers) {
    if (!exchange_->advance()) return false;
    hear_offers(comm);
    stage_ = Stage::hand_over;
  }
  if (stage_ == Stage::hand_over) {
    attempt([&] {
      if (hand_over()) stage_ = Stage::gather;
    });
    hear_children();
    if (!failure_.empty() || a_child_failed()) stage_ = Stage::gather;
    if (stage_ == Stage::hand_over) return false;
    server_.reset();  // ranks that still wait for it learn that it is gone
  }
  if (stage_ == Stage::gather) {
    if (!hear_children()) return false;
    report(comm);
    stage_ = Stage::announce;
  }
  if (stage_ == Stage::announce) {
    if (from_parent_ && !from_parent_->advance()) return false;
    from_parent_.reset();
    announce(comm);
    stage_ = Stage::made;
  }
  if (!all_sent()) return false;
  if (verdict_[0] != 0) throw Error(verdict_.data());
  return true;
}

void NodeMemory::hear_offers(const Communicator& comm) {
  std::string failures;
  for (const Offer& offer : offers_) add(failures, offer.failure.data());
  if (!failures.empty()) throw Error(failures);
  if (!leads()) return;
  const auto expect = [&](int rank) {
    Child& child = children_.emplace_back();
    child.rank = rank;
    child.receive = mpi::receive_aside_transfer(comm, std::as_writable_bytes(std::span(child.verdict)), Rank(rank));
  };
  for (const int rank : neighbours_) {
    if (rank != rank_) expect(rank);
  }
  for (int rank = 1; rank_ == 0 && rank < comm.size(); ++rank) {
    if (offers_[static_cast<size_t>(rank)].first == rank) expect(rank);
  }
}

// True when all children have reported.
bool NodeMemory::hear_children() {
  for (Child& child : children_) {
    if (child.receive && child.receive->advance()) child.receive.reset();
  }
  return std::ranges::none_of(children_, [](const Child& child) { return child.receive != nullptr; });
}

// Whether a child failed; it may be a rank of this node, which then never asks for the memory.
bool NodeMemory::a_child_failed() const {
  return std::ranges::any_of(children_, [](const Child& child) { return !child.receive && child.verdict[0] != 0; });
}

// True when this rank has the memory, and so have all ranks that it serves.
bool NodeMemory::hand_over() {
  if (leads()) {
    served_ += server_->serve(memory_);
    if (served_ + 1 < static_cast<int>(neighbours_.size())) return false;
  } else {
    if (!receiver_) receiver_.emplace(offers_[static_cast<size_t>(neighbours_.front())].address.data());
    auto memory = receiver_->receive();
    if (!memory) return false;
    memory_ = std::move(*memory);
    receiver_.reset();
  }
  *mapping_ = shared_memory::Mapping(memory_, bytes_);
  memory_ = {};
  return true;
}

void NodeMemory::report(const Communicator& comm) {
  std::string failures = failure_;
  for (const Child& child : children_) add(failures, child.verdict.data());
  put(rank_ == 0 ? verdict_ : upwards_, failures);
  if (rank_ == 0) return;
  const Rank parent(leads() ? 0 : neighbours_.front());
  sends_.push_back(mpi::send_aside_transfer(comm, bytes_of(upwards_), parent));
  from_parent_ = mpi::receive_aside_transfer(comm, std::as_writable_bytes(std::span(verdict_)), parent);
}

void NodeMemory::announce(const Communicator& comm) {
  for (const Child& child : children_) sends_.push_back(mpi::send_aside_transfer(comm, bytes_of(verdict_), Rank(child.rank)));
}

bool NodeMemory::all_sent() {
  std::erase_if(sends_, [](const auto& send) { return send->advance(); });
  return sends_.empty();
}

std::shared_ptr<std::byte> make_node_memory(const Communicator& comm, const std::vector<int>& neighbours, int64_t bytes) {
  const auto memory = std::make_shared<NodeMemory>(comm, neighbours, bytes);
  mpi::start(comm, {.collective = Collective::make_communicator}, std::make_unique<Making>(comm, memory)).wait();
  return memory->take();
}

}  // namespace tw
