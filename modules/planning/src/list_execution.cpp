// SPDX-License-Identifier: Apache-2.0
#include "list_execution.hpp"

#include <algorithm>
#include <deque>

namespace tw::pipeline {
namespace {

class ListExecution {
 public:
  ListExecution(const ExecutableLists& all, size_t capacity)
      : all_(all), capacity_(capacity), next_(all.lists.size(), 0), in_flight_(all.channels.size()), present_(all.collectives.size()) {}

  std::vector<BlockedList> run() {
    for (size_t list = 0; list < next_.size(); ++list) {
      arrive(list);
      turns_.push_back(list);
    }
    while (!turns_.empty()) {
      const size_t list = turns_.back();
      turns_.pop_back();
      while (!has_ended(list) && !obstacle(list)) make(list);
    }
    std::vector<BlockedList> blocked;
    for (size_t list = 0; list < next_.size(); ++list) {
      if (!has_ended(list)) blocked.push_back(described(list, *obstacle(list)));
    }
    return blocked;
  }

 private:
  using Reason = BlockedList::Reason;

  bool has_ended(size_t list) const { return next_[list] == all_.lists[list].size(); }
  const Step& current(size_t list) const { return all_.lists[list][next_[list]]; }

  std::optional<Reason> obstacle(size_t list) const {
    const Step& step = current(list);
    if (step.in) {
      const std::deque<int>& arriving = in_flight_[step.in->channel];
      if (arriving.empty()) return Reason::no_message;
      if (arriving.front() != step.in->item) return Reason::wrong_message;
    }
    if (step.out && is_full(step.out->channel)) return Reason::channel_full;
    if (step.collective && present_[*step.collective].size() < all_.collectives[*step.collective].size()) return Reason::collective;
    return std::nullopt;
  }

  bool is_full(size_t channel) const {
    const auto& [from, to] = all_.channels[channel];
    return from != to && in_flight_[channel].size() >= capacity_;  // a list need not wait for itself
  }

  void make(size_t list) {
    const Step& step = current(list);
    if (step.in) {
      in_flight_[step.in->channel].pop_front();
      turns_.push_back(all_.channels[step.in->channel].from);
    }
    if (step.out) {
      in_flight_[step.out->channel].push_back(step.out->item);
      turns_.push_back(all_.channels[step.out->channel].to);
    }
    if (!step.collective) return advance(list);
    for (const size_t member : present_[*step.collective]) {
      advance(member);
      if (member != list) turns_.push_back(member);
    }
  }
  void advance(size_t list) {
    ++next_[list];
    arrive(list);
  }
  void arrive(size_t list) {
    if (!has_ended(list) && current(list).collective) present_[*current(list).collective].push_back(list);
  }

  BlockedList described(size_t list, Reason reason) const {
    const Step& step = current(list);
    BlockedList blocked{list, next_[list], reason};
    switch (reason) {
      case Reason::no_message: blocked.waits_for = {all_.channels[step.in->channel].from}; break;
      case Reason::wrong_message: blocked.item = in_flight_[step.in->channel].front(); break;
      case Reason::channel_full:
        blocked.item = in_flight_[step.out->channel].front();
        blocked.waits_for = {all_.channels[step.out->channel].to};
        break;
      case Reason::collective: {
        const std::vector<size_t>& present = present_[*step.collective];
        for (const size_t member : all_.collectives[*step.collective]) {
          if (std::find(present.begin(), present.end(), member) == present.end()) blocked.waits_for.push_back(member);
        }
        break;
      }
    }
    return blocked;
  }

  const ExecutableLists& all_;
  size_t capacity_;
  std::vector<size_t> next_;                  // next step of each list
  std::vector<std::deque<int>> in_flight_;    // by channel, oldest first
  std::vector<std::vector<size_t>> present_;  // by collective: members that have reached it
  std::vector<size_t> turns_;                 // lists that may be able to continue
};

}  // namespace

std::vector<BlockedList> execute(const ExecutableLists& all, size_t capacity) { return ListExecution(all, capacity).run(); }

}  // namespace tw::pipeline
