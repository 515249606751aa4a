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

/// The tensors of paused trials, in this rank's memory, and their transfer to other ranks.
class Checkpoints {
 public:
  /// Collective. @param all ranks among which tensors may be sent. @param letter_bytes maximum size of a message
  void connect(const Communicator& all, size_t letter_bytes = size_t{1} << 28);

  bool has(int64_t trial) const { return kept_.contains(trial); }
  /// Stores copies of the attached tensors.
  void capture(int64_t trial, const Attachment& attachment);
  /// Fills the attached tensors. @throws ContractError if they do not match the stored ones
  void restore(int64_t trial, const Attachment& attachment) const;
  /// Lets `trial` share the stored tensors of `original`.
  void copy(int64_t original, int64_t trial) { kept_[trial] = kept_.at(original); }
  /// Sends the stored tensors of `trial`. Returns immediately.
  void send(int64_t trial, int rank);
  /// Waits for the earliest checkpoint from that rank that was not received yet. @param trial the trial to store it for; -1: drop it
  void receive(int rank, int64_t trial);
  void forget(int64_t trial) { kept_.erase(trial); }

 private:
  mpi::Mailbox::Message letter_from(int rank);

  using Tensors = std::shared_ptr<const std::vector<NamedTensor>>;  // immutable
  std::map<int64_t, Tensors> kept_;                                 // by trial
  std::optional<mpi::Mailbox> mailbox_;
  size_t letter_bytes_ = 0;
  std::map<int, std::vector<mpi::Mailbox::Message>> waiting_;  // by rank, in the order in which they arrived
};

}  // namespace tw::search
