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

/// Compares what the models of a communicator do one after the other, which must be the same on all ranks: for each event they exchange a number, 8
/// bytes that travel beside the work. One for all models, since two that exchange in different orders would wait for each other.
class OrderCheck {
 public:
  /// The one of the models over `comm` that live. Collective: all make another one where a rank has none any more,
  /// or one whose ranks went different ways.
  static std::shared_ptr<OrderCheck> of(const Communicator& comm);
  OrderCheck(const Communicator& comm, int64_t id);

  static constexpr int64_t end_of_pass = -1;  ///< in the place of a unit

  /// A model takes part. Collective. @param units their names for messages @return its number
  int64_t add(std::vector<std::string> units);
  void remove(int64_t model) { models_.erase(model); }

  /// This rank takes `unit` of `model` next. Returns at once. @return the number of the event
  int64_t begin(int64_t model, int64_t unit);
  /// Waits until all ranks have begun events up to `event`. @return what each rank does at the first event where they differ; empty: they do not
  const std::string& difference_up_to(int64_t event);
  /// What was found before; empty: nothing.
  const std::string& difference() const noexcept { return difference_; }

 private:
  struct Event {
    at::Tensor of_ranks;
    Work exchange;
  };
  std::string describe(const std::vector<int64_t>& of_ranks) const;

  Communicator comm_;
  int64_t id_;  // the same on all ranks
  std::map<int64_t, std::vector<std::string>> models_;
  int64_t next_model_ = 0;
  std::deque<Event> open_;
  int64_t begun_ = 0;
  std::string difference_;
};

}  // namespace tw
