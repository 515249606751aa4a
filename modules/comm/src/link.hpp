// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <tw/comm/back_end.hpp>
#include <tw/shared_memory/channel.hpp>
#include <vector>

namespace tw {

/// What `comm` keeps for a communicator: who is on this node, the memory they share, and the ways to do collectives. Made at first use.
class Link {
 public:
  /// The link of `comm`. Collective the first time, local afterwards.
  static Link& of(const Communicator& comm);
  /// @param neighbours the ranks of this node, ascending.
  static Link& make(const Communicator& comm, const SharedMemoryOptions& options, std::vector<int> neighbours);

  /// The back end for `collective`: the one that was chosen, where it can do it, or the first that can.
  BackEnd& back_end(Collective collective) const { return *for_collective_[static_cast<size_t>(collective)]; }
  const std::vector<std::unique_ptr<BackEnd>>& back_ends() const noexcept { return back_ends_; }
  void choose(std::optional<std::string> name);

  /// Ranks of this node, ascending.
  const std::vector<int>& neighbours() const noexcept { return neighbours_; }
  const std::shared_ptr<shared_memory::Channel>& channel() const noexcept { return channel_; }

 private:
  Link(const Communicator& comm, const SharedMemoryOptions& options, std::vector<int> neighbours);
  BackEnd& find_back_end(Collective collective) const;

  std::vector<int> neighbours_;
  std::shared_ptr<shared_memory::Channel> channel_;
  std::vector<std::unique_ptr<BackEnd>> back_ends_;
  std::optional<std::string> chosen_;
  std::array<BackEnd*, collectives> for_collective_{};
};

}  // namespace tw
