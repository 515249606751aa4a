// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw {

/// Checks that all ranks use the units of a communicator's models, and end passes, in the same order. For each such event the ranks exchange a
/// number: 8 bytes, concurrently with the work. All models share one check, since two that exchange in different orders would deadlock.
class OrderCheck {
 public:
  /// The check shared by all living models over `comm`. Collective: all ranks make a new one if any rank has none, or if the old one found a
  /// difference.
  static std::shared_ptr<OrderCheck> of(const Communicator& comm);
  OrderCheck(const Communicator& comm, int64_t id);

  static constexpr int64_t end_of_pass = -1;  ///< instead of a unit

  /// Ends all waits of all ranks after a failed step. Local.
  void revoke(const std::string& why) const;
  /// Begins again if a step has failed: drops all events. Collective.
  void restart();

  /// Registers a model. Collective. @param units names for messages @return the model's number
  int64_t add(std::vector<std::string> units);
  void remove(int64_t model) { models_.erase(model); }

  /// Records that this rank uses `unit` of `model` next. Does not block. @return the event's number
  int64_t begin(int64_t model, int64_t unit);
  /// Waits until all ranks have begun events up to `event`. @return what each rank does at the first event where they differ; empty if none
  const std::string& difference_up_to(int64_t event);
  /// The difference found so far; empty if none.
  const std::string& difference() const noexcept { return difference_; }

 private:
  struct Event {
    at::Tensor of_ranks;
    Work exchange;
  };
  std::string describe(const std::vector<int64_t>& of_ranks) const;

  Communicator lasting_;
  Communicator comm_;
  int64_t id_;  // the same on all ranks
  std::map<int64_t, std::vector<std::string>> models_;
  int64_t next_model_ = 0;
  std::deque<Event> open_;
  int64_t begun_ = 0;
  std::string difference_;
};

}  // namespace tw
