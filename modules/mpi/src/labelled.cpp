// SPDX-License-Identifier: Apache-2.0
#include "labelled.hpp"

#include <deque>
#include <exception>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/mpi/library.hpp>
#include <utility>
#include <vector>

#include "transfer_requests.hpp"

namespace tw::mpi {
namespace {

struct Label {
  Collective collective;
  ElementType type;
  int64_t count;
  bool operator==(const Label&) const = default;
};

std::span<std::byte> bytes_of(Label& label) { return std::as_writable_bytes(std::span(&label, 1)); }

/// a. Receives from the same rank with the same tag take turns: otherwise the second would receive the first one's data as its label.
/// b. The label describes the data. Data of the expected type and length is received in place; other data is received elsewhere and dropped.
class LabelledReceive : public Transfer {
 public:
  LabelledReceive(const Communicator& comm, Collective collective, const PeerBuffer& receive, int tag)
      : comm_(borrow(comm)),
        mine_{collective, receive.buffer.type, receive.buffer.count},
        buffer_(raw(receive.buffer)),
        from_(receive.peer),
        tag_(tag),
        turns_(comm.state()->turns_of(from_, tag)),
        turn_(turns_->taken++) {}

  /// A receive that fails before its label arrives passes its turn to the next one.
  ~LabelledReceive() override {
    if (requests_ && !has_label_) ++turns_->over;
  }

  bool advance() override {
    if (!requests_) {
      if (turns_->over != turn_) return false;
      requests_.emplace(comm_);
      requests_->receive(raw(bytes_of(theirs_)), from_, tag_);
    }
    if (!has_label_) {
      if (!requests_->advance()) return false;
      has_label_ = true;
      begin_rest();
    }
    if (!requests_->advance()) return false;
    expect_same();
    return true;
  }

 private:
  void begin_rest() {
    if (mine_ != theirs_) {
      elsewhere_.resize(static_cast<size_t>(theirs_.count * element_bytes(theirs_.type)));
      buffer_ = raw(elsewhere_);
    }
    requests_.emplace(comm_);
    requests_->receive(buffer_, from_, tag_);
    ++turns_->over;
  }

  void expect_same() const {
    const auto text = [](const Label& label) {
      return concat(label.count, ' ', name_of(label.type), label.collective == Collective::send ? "" : concat(" in ", name_of(label.collective)));
    };
    TW_EXPECTS(mine_ == theirs_, "rank ", from_, " of '", comm_.name(), "' sent ", text(theirs_), " where rank ", comm_.rank(), " receives ",
               text(mine_), ": both must use the same dtype and size");
  }

  const Communicator comm_;
  const Label mine_;
  Buffer buffer_;
  const int from_;
  const int tag_;
  const std::shared_ptr<CommunicatorState::Turns> turns_;
  const int64_t turn_;
  std::optional<TransferRequests> requests_;  // for the label, then for the data
  bool has_label_ = false;
  Label theirs_{};
  std::vector<std::byte> elsewhere_;
};

class LabelledTransfer : public Transfer {
 public:
  LabelledTransfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends, std::span<const PeerBuffer> receives, int tag)
      : sends_(comm) {
    for (const PeerBuffer& send : sends) {
      Label& label = labels_.emplace_back(Label{collective, send.buffer.type, send.buffer.count});
      sends_.send(raw(bytes_of(label)), send.peer, tag);
      sends_.send(raw(send.buffer), send.peer, tag);
    }
    for (const PeerBuffer& receive : receives) receives_.push_back(std::make_unique<LabelledReceive>(comm, collective, receive, tag));
  }

  bool advance() override {
    all_sent_ = all_sent_ || sends_.advance();
    bool all_here = true;
    for (auto& receive : receives_) {
      try {
        if (receive && receive->advance()) receive.reset();
      } catch (const ContractError&) {  // the receive has ended
        if (!failure_) failure_ = std::current_exception();
        receive.reset();
      }
      all_here = all_here && !receive;
    }
    if (!all_sent_ || !all_here) return false;
    if (failure_) std::rethrow_exception(failure_);
    return true;
  }

 private:
  TransferRequests sends_;
  std::deque<Label> labels_;  // a deque, because labels must not move
  std::vector<std::unique_ptr<LabelledReceive>> receives_;
  bool all_sent_ = false;
  std::exception_ptr failure_;
};

}  // namespace

std::unique_ptr<Transfer> labelled_transfer(const Communicator& comm, Collective collective, std::span<const PeerBuffer> sends,
                                            std::span<const PeerBuffer> receives, int tag) {
  return std::make_unique<LabelledTransfer>(comm, collective, sends, receives, tag);
}

}  // namespace tw::mpi
