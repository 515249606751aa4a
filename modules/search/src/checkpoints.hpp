// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tw/mpi/mailbox.hpp>
#include <tw/search/attachment.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::search {

/// What paused trials carry, in this rank's memory, and the way from there to other ranks.
class Checkpoints {
 public:
  /// Collective. @param all among whom what trials carry may go. @param letter_bytes that go at once, at most
  void connect(const Communicator& all, size_t letter_bytes = size_t{1} << 28);

  bool has(int64_t trial) const { return kept_.contains(trial); }
  /// Keeps a copy of what is attached.
  void capture(int64_t trial, const Attachment& attachment);
  /// Fills what is attached. @throws ContractError where it does not fit
  void restore(int64_t trial, const Attachment& attachment) const;
  /// `trial` has from now on what `original` has.
  void copy(int64_t original, int64_t trial) { kept_[trial] = kept_.at(original); }
  /// Returns at once.
  void send(int64_t trial, int rank);
  /// Waits for what that rank sent first of what was not received yet. @param trial whose it is from now on; -1: nobody's
  void receive(int rank, int64_t trial);
  void forget(int64_t trial) { kept_.erase(trial); }

 private:
  mpi::Mailbox::Message letter_from(int rank);

  using Tensors = std::shared_ptr<const std::vector<NamedTensor>>;  // never changed
  std::map<int64_t, Tensors> kept_;                                 // by trial
  std::optional<mpi::Mailbox> mailbox_;
  size_t letter_bytes_ = 0;
  std::map<int, std::vector<mpi::Mailbox::Message>> waiting_;  // by rank, in their order
};

}  // namespace tw::search
