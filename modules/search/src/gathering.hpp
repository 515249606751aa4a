// SPDX-License-Identifier: Apache-2.0
// How a trial comes to the ranks of several workers. Pure.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tw::search {

/// A trial that wants ranks of other workers.
struct Claim {
  int32_t rung = 0;  ///< that it is promoted to
  int64_t trial = -1;

  /// The higher rung comes first, and of one rung the earlier trial: an order, so that no two wait for each other.
  bool precedes(const Claim& other) const { return rung != other.rung ? rung > other.rung : trial < other.trial; }
};

/// The workers whose ranks a trial gets: its own, and of others those that offer themselves first, while they bring no more than is wanted.
class Gathering {
 public:
  /// @param own_worker, own_ranks the trial's own. @param ranks wanted in all. @param others who may offer themselves, with their ranks
  Gathering(int own_worker, int own_ranks, int ranks, std::map<int, int> others)
      : workers_{own_worker}, left_(ranks - own_ranks), awaited_(std::move(others)) {}

  /// Ranks that are still wanted.
  int left() const { return left_; }
  /// One of the others offers itself.
  void offer(int worker) {
    const int ranks = awaited_.extract(worker).mapped();
    if (ranks > left_) return;
    workers_.push_back(worker);
    left_ -= ranks;
  }
  /// Nobody who has not offered itself yet would be taken.
  bool is_over() const {
    return std::ranges::none_of(awaited_, [this](const auto& each) { return each.second <= left_; });
  }
  /// The own one first, the others in their order.
  std::vector<int32_t> workers() const {
    std::vector<int32_t> sorted = workers_;
    std::sort(sorted.begin() + 1, sorted.end());
    return sorted;
  }

 private:
  std::vector<int32_t> workers_;
  int left_;
  std::map<int, int> awaited_;  // ranks of each that may come
};

}  // namespace tw::search
