// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/call.hpp>
#include <tw/shared_memory/channel.hpp>

namespace tw::shared_memory {

/// A collective on a channel whose data travels on another path, such as from device to device: its ranks meet here as often as they need, all
/// equally often. It keeps its place among the channel's collectives, in the order in which they were begun, from the first meeting to end().
class Meeting {
 public:
  Meeting(std::shared_ptr<Channel> channel, const Call& call);
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  /// Whether all collectives that were begun earlier have ended.
  bool is_its_turn() const noexcept;
  /// True, once for each meeting, when all ranks have come to it; never waits. What a rank did before it came is seen by all after. @throws
  /// ContractError on every rank, naming the ranks and both calls, when the ranks were not called to do the same; it has ended then.
  bool has_met();
  void end() noexcept;

 private:
  std::shared_ptr<Channel> channel_;
  Call call_;
  uint64_t ticket_;
  bool is_here_ = false;
};

}  // namespace tw::shared_memory
