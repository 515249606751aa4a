// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <set>
#include <tw/evolution/individual.hpp>
#include <unordered_map>
#include <vector>

namespace tw::search {

/// All known individuals. Feasible ones are ranked by loss; individuals with a known violation follow, ranked by its size (Deb 2000); others are not
/// ranked. Adding an individual or reading the best one costs at most O(log n).
class Population {
 public:
  /// Adds an individual; does nothing if its trial number is known. @return whether it is new
  bool add(const Individual& individual);
  /// Removes a trial from the ranking when it has moved to another island; it stays known. @return whether it was ranked
  bool deactivate(int64_t trial);
  /// Ranks a trial again after it has returned from another island. @return whether it is now ranked and was not before
  bool activate(int64_t trial);

  /// All individuals in the order in which they were added.
  const std::vector<Individual>& all() const noexcept { return all_; }
  /// The individual of this trial; null if the trial is not known.
  const Individual* find(int64_t trial) const;

  /// The number of ranked individuals: active ones with a comparable loss or a known violation (see Individual).
  size_t active() const noexcept { return active_.size(); }
  /// The active individual of this rank; 0 is the best, ties are ordered by trial. @param rank below active() and below 1024
  const Individual& ranked(size_t rank) const { return all_[best_[rank].index]; }
  /// The number of ranks that ranked() accepts: active(), at most 1024.
  size_t ranked_count() const noexcept { return best_.size(); }
  /// The worst active individual. @throws ContractError if there is none
  const Individual& worst() const;
  /// The i-th active individual, in no particular order.
  const Individual& active_at(size_t i) const { return all_[active_[i]]; }
  /// The best individual with a comparable loss, active or not; null if there is none yet.
  const Individual* best() const noexcept { return best_ever_ < 0 ? nullptr : &all_[static_cast<size_t>(best_ever_)]; }

 private:
  struct Key {
    Standing standing;
    int64_t trial;
    size_t index;
    auto operator<=>(const Key&) const = default;
  };

  Key key_of(size_t index) const { return {all_[index].standing(), all_[index].trial, index}; }
  void rank(size_t index);

  std::vector<Individual> all_;
  std::unordered_map<int64_t, size_t> index_;  // by trial
  std::vector<size_t> active_;
  std::vector<size_t> place_;  // index in `active_`, by individual
  std::vector<Key> best_;      // sorted
  std::set<Key> rest_;         // the active individuals after `best_`
  int64_t best_ever_ = -1;
};

}  // namespace tw::search
