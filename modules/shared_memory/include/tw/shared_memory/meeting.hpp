// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/call.hpp>
#include <tw/shared_memory/channel.hpp>

namespace tw::shared_memory {

/// Synchronizes the ranks in a collective whose data travels outside the channel, such as from device to device. The ranks may meet several times,
/// the same number on every rank. The collective keeps its place in the order of the channel's collectives: later ones begin after end().
class Meeting {
 public:
  Meeting(std::shared_ptr<Channel> channel, const Call& call);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Whether all earlier collectives have ended on this rank.
  bool is_its_turn() const noexcept;
  /// Arrives at the next meeting, unless this rank already has. Returns whether all ranks have arrived; never waits. After it has returned true, this
  /// rank sees what the others wrote before they arrived. The next call then begins another meeting. Call it only when is_its_turn().
  /// @throws ContractError on every rank if the ranks' calls differ, naming the ranks and their calls. The collective has then ended.
  bool has_met();
  void end() noexcept;

 private:
  std::shared_ptr<Channel> channel_;
  Call call_;
  uint64_t ticket_;
  bool is_here_ = false;
};

}  // namespace tw::shared_memory
