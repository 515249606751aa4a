// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <set>
#include <tw/evolution/individual.hpp>
#include <unordered_map>
#include <vector>

namespace tw::search {

/// All individuals that are known, ranked by loss; after them those that violate constraints, ranked by how much they do (Deb 2000). What it costs to
/// add one, or to look at the best, does not grow with their number (but for the logarithm of a tree).
class Population {
 public:
  /// A trial that is known already is left as it is. @return whether it is new
  bool add(const Individual& individual);
  /// It stays known, but is ranked no more: it has moved elsewhere. @return whether it was ranked
  bool deactivate(int64_t trial);
  /// It has come back. @return whether it is known, is of those that are ranked, and was not
  bool activate(int64_t trial);

  /// In the order in which they were added.
  const std::vector<Individual>& all() const noexcept { return all_; }
  /// Null: not known.
  const Individual* find(int64_t trial) const;

  /// Those that are ranked: they count, or at least their violation is known, and they are active.
  size_t active() const noexcept { return active_.size(); }
  /// Active ones from the best, ties by trial. @param rank below active() and below 1024
  const Individual& ranked(size_t rank) const { return all_[best_[rank].index]; }
  /// As many of these as there are, up to 1024.
  size_t ranked_count() const noexcept { return best_.size(); }
  /// The last of the active ones. @throws ContractError if there is none
  const Individual& worst() const;
  /// The i-th active one, in no order.
  const Individual& active_at(size_t i) const { return all_[active_[i]]; }
  /// The best of all that count, active or not; none yet: null.
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
  std::vector<size_t> place_;  // in `active_`, by individual
  std::vector<Key> best_;      // sorted
  std::set<Key> rest_;         // the active ones after these
  int64_t best_ever_ = -1;
};

}  // namespace tw::search
