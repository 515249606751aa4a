// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/population.hpp>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::search {
namespace {

constexpr size_t max_ranked = 1024;
constexpr size_t nowhere = static_cast<size_t>(-1);

bool is_rankable(const Individual& individual) { return individual.has_comparable_loss() || individual.has_known_violation(); }

}  // namespace

bool Population::add(const Individual& individual) {
  const size_t index = all_.size();
  if (!index_.emplace(individual.trial, index).second) return false;
  all_.push_back(individual);
  place_.push_back(nowhere);
  if (!is_rankable(individual)) return true;
  if (individual.has_comparable_loss() && (best_ever_ < 0 || individual.loss < all_[static_cast<size_t>(best_ever_)].loss))
    best_ever_ = static_cast<int64_t>(index);
  rank(index);
  return true;
}

void Population::rank(size_t index) {
  place_[index] = active_.size();
  active_.push_back(index);
  const Key key = key_of(index);
  if (best_.size() == max_ranked && !(key < best_.back())) {
    rest_.insert(key);
    return;
  }
  best_.insert(std::upper_bound(best_.begin(), best_.end(), key), key);
  if (best_.size() > max_ranked) {
    rest_.insert(best_.back());
    best_.pop_back();
  }
}

bool Population::activate(int64_t trial) {
  const auto found = index_.find(trial);
  if (found == index_.end() || place_[found->second] != nowhere || !is_rankable(all_[found->second])) return false;
  rank(found->second);
  return true;
}

bool Population::deactivate(int64_t trial) {
  const auto found = index_.find(trial);
  if (found == index_.end() || place_[found->second] == nowhere) return false;
  const size_t index = found->second;
  active_[place_[index]] = active_.back();
  place_[active_.back()] = place_[index];
  active_.pop_back();
  place_[index] = nowhere;
  const Key key = key_of(index);
  if (rest_.erase(key) > 0) return true;
  best_.erase(std::lower_bound(best_.begin(), best_.end(), key));
  if (!rest_.empty()) best_.push_back(rest_.extract(rest_.begin()).value());
  return true;
}

const Individual* Population::find(int64_t trial) const {
  const auto found = index_.find(trial);
  return found == index_.end() ? nullptr : &all_[found->second];
}

const Individual& Population::worst() const {
  TW_EXPECTS(!active_.empty(), "the population has no active individual");
  return all_[rest_.empty() ? best_.back().index : rest_.rbegin()->index];
}

}  // namespace tw::search
