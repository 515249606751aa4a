// SPDX-License-Identifier: Apache-2.0
#include "audit.hpp"

#include <array>
#include <memory>
#include <span>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/mpi/collectives.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

#include "agreement_text.hpp"

namespace tw {
namespace {

/// The calls of all ranks, while they are exchanged.
class CallsOfRanks : public mpi::Transfer {
 public:
  CallsOfRanks(const Communicator& comm, const std::string& mine) : name_(comm.name()) {
    mpi::expect_own_thread(comm);
    travelling_ = std::make_unique<Travelling>(static_cast<size_t>(comm.size()));
    mine.copy(travelling_->mine.data(), travelling_->mine.size() - 1);
    const auto line = std::as_bytes(std::span(travelling_->mine));
    travelling_->exchange = mpi::audit_transfer(comm, line, std::as_writable_bytes(std::span(travelling_->lines)));
  }
  CallsOfRanks(const CallsOfRanks&) = delete;
  CallsOfRanks& operator=(const CallsOfRanks&) = delete;
  /// After an exception between the audit and the call, MPI may still write into the lines; they are then leaked.
  ~CallsOfRanks() override { [[maybe_unused]] const auto* leaked = travelling_.release(); }

  bool advance() override {
    if (!travelling_) return true;  // asked again while the call waits for something else
    if (!travelling_->exchange->advance()) return false;
    const auto arrived = std::move(travelling_);
    std::vector<std::string> texts;
    for (const Line& line : arrived->lines) texts.emplace_back(line.data());
    const std::string differences = differences_text(texts);
    TW_EXPECTS(differences.empty(), "the collective call must be the same on all ranks of '", name_, "': ", differences);
    return true;
  }

 private:
  using Line = std::array<char, 256>;  // null-terminated
  struct Travelling {
    explicit Travelling(size_t ranks) : lines(ranks) {}
    Line mine{};
    std::vector<Line> lines;  // by rank
    std::unique_ptr<mpi::Transfer> exchange;
  };
  std::string name_;
  std::unique_ptr<Travelling> travelling_;
};

mpi::StartQueue::Ready when_all_call(const Communicator& comm, const std::string& line) {
  return [calls = std::make_shared<CallsOfRanks>(comm, line)](const Communicator&) { return calls->advance(); };
}

}  // namespace

mpi::StartQueue::Ready audited_start(const Communicator& comm, const Call& call, const at::Tensor& tensor) {
  if (!comm.audited()) return {};
  return when_all_call(comm, concat(call.describe(), ' ', shape_text(tensor.sizes().vec())));
}

mpi::StartQueue::Ready audited_start(const Communicator& comm, const Call& call) {
  if (!comm.audited()) return {};
  return when_all_call(comm, call.describe());
}

void wait_for_audit(const Communicator& comm, const Call& call) {
  if (comm.audited()) mpi::start(comm, call, std::make_unique<CallsOfRanks>(comm, call.describe())).wait();
}

mpi::StartQueue::Ready both_ready(mpi::StartQueue::Ready first, mpi::StartQueue::Ready second) {
  if (!first) return second;
  if (!second) return first;
  return [first = std::move(first), second = std::move(second)](const Communicator& of) { return first(of) && second(of); };
}

}  // namespace tw
