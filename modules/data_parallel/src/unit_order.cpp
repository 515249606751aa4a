// SPDX-License-Identifier: Apache-2.0
#include "unit_order.hpp"

#include <algorithm>
#include <numeric>

namespace tw {
namespace {

// Longest pass that is learnt; later uses are ignored.
constexpr size_t max_learnt = size_t{1} << 16;
// Uses after which forward passes are assumed to have no backward pass, if they also far exceed what was learnt.
constexpr size_t many = 1024;

bool contains(std::span<const size_t> units, size_t unit) { return std::find(units.begin(), units.end(), unit) != units.end(); }

}  // namespace

std::vector<bool> kept_units(const std::vector<int64_t>& bytes, size_t ahead, int64_t resident_bytes) {
  if (bytes.size() <= 1 + std::max<size_t>(ahead, 1)) return std::vector<bool>(bytes.size(), true);
  std::vector<size_t> units(bytes.size());
  std::iota(units.begin(), units.end(), size_t{0});
  std::stable_sort(units.begin(), units.end(), [&](size_t a, size_t b) { return bytes[a] < bytes[b]; });
  std::vector<bool> kept(bytes.size());
  for (const size_t unit : units) {
    if (bytes[unit] > resident_bytes) break;
    resident_bytes -= bytes[unit];
    kept[unit] = true;
  }
  return kept;
}

UnitOrder::Moves UnitOrder::use(std::span<const size_t> units, const UseMoment& moment) {
  const bool evaluates = moment.pass == UseMoment::Pass::evaluation;
  for (const size_t unit : units) evaluates ? follow(unit) : learn(unit, moment);
  Moves moves;
  const std::vector<size_t> soon = next(evaluates ? evaluation_ : training_);
  moves.ahead.assign(soon.begin(), soon.begin() + static_cast<std::ptrdiff_t>(std::min(ahead_, soon.size())));
  // An operator without gradients may run inside a training pass, e.g. in a torch::autograd::Function.
  const std::vector<size_t> trained = evaluates && training_.unit ? next(training_) : std::vector<size_t>{};
  const auto stays = [&](size_t unit) { return contains(units, unit) || contains(soon, unit) || contains(trained, unit); };
  for (size_t unit = 0; unit < has_.size(); ++unit) {
    if (has_[unit] && !kept_[unit] && !stays(unit)) moves.release.push_back(unit);
  }
  for (const size_t unit : units) {
    if (!has_[unit] && !contains(moves.gather, unit)) moves.gather.push_back(unit);
  }
  std::erase_if(moves.ahead, [&](size_t unit) { return has_[unit] || contains(moves.gather, unit); });
  for (const size_t unit : moves.release) has_[unit] = false;
  for (const size_t unit : moves.gather) has_[unit] = true;
  for (const size_t unit : moves.ahead) has_[unit] = true;
  return moves;
}

std::vector<size_t> UnitOrder::end_pass() {
  // The last forward pass that began before the oldest node of the backward pass was created.
  const auto first = std::find_if(current_.rbegin(), current_.rend(), [&](const Use& use) { return use.starts && use.number <= oldest_; });
  learnt_.clear();
  for (auto use = first == current_.rend() ? current_.begin() : std::prev(first.base()); use != current_.end(); ++use) learnt_.push_back(use->unit);
  current_.clear();
  last_start_ = 0;
  oldest_ = none;
  training_ = evaluation_ = {};
  std::vector<size_t> all;
  for (size_t unit = 0; unit < has_.size(); ++unit) {
    if (has_[unit] && !kept_[unit]) all.push_back(unit);
  }
  for (const size_t unit : all) has_[unit] = false;
  return all;
}

void UnitOrder::learn(size_t unit, const UseMoment& moment) {
  const bool is_forward = moment.pass == UseMoment::Pass::forward;
  if (!is_forward) oldest_ = std::min(oldest_, moment.number);
  if (training_.unit == unit) return;
  training_ = {unit, training_.unit, training_.position};
  note(unit, moment);
  const auto lost = learnt_.size() + 1;
  const bool is_expected = training_.position < learnt_.size() && learnt_[training_.position] == unit;
  if (is_forward && !is_expected && begins(training_)) training_.position = 0;
  if (training_.position == lost) return;
  const auto found = std::find(learnt_.begin() + static_cast<std::ptrdiff_t>(training_.position), learnt_.end(), unit);
  training_.position = found == learnt_.end() ? lost : static_cast<size_t>(found - learnt_.begin()) + 1;
}

// Also true if the previous pass ended with the first unit, e.g. a tied weight: consecutive uses count once.
bool UnitOrder::begins(const Place& place) const {
  const auto is_learnt = [&](size_t position, const std::optional<size_t>& unit) { return position < learnt_.size() && learnt_[position] == unit; };
  return is_learnt(0, place.unit) || (is_learnt(0, place.before) && is_learnt(1, place.unit));
}

void UnitOrder::note(size_t unit, const UseMoment& moment) {
  const bool is_first = current_.empty() || unit == current_.front().unit || (!learnt_.empty() && unit == learnt_.front());
  const bool starts = is_first && moment.pass == UseMoment::Pass::forward;
  const size_t enough = std::min(max_learnt, std::max(many, 4 * learnt_.size()));
  if (starts && current_.size() >= enough) {
    current_.erase(current_.begin(), current_.begin() + static_cast<std::ptrdiff_t>(last_start_));
    last_start_ = 0;
  }
  if (current_.size() >= max_learnt) return;
  if (starts) last_start_ = current_.size();
  current_.push_back({unit, starts, moment.number});
}

// Repeats the forward part of what was learnt, since nothing marks the end of an evaluation.
void UnitOrder::follow(size_t unit) {
  if (evaluation_.unit == unit) return;
  const size_t expected = evaluation_.position;
  const bool begins = !learnt_.empty() && unit == learnt_.front() && (expected >= learnt_.size() || learnt_[expected] != unit);
  const auto find_from = [&](size_t begin) {
    const size_t from = std::min(begin, learnt_.size());
    return static_cast<size_t>(std::find(learnt_.begin() + static_cast<std::ptrdiff_t>(from), learnt_.end(), unit) - learnt_.begin());
  };
  size_t found = begins ? 0 : find_from(expected);
  if (found == learnt_.size()) found = find_from(0);
  evaluation_ = {unit, evaluation_.unit, found + 1};
}

// Distinct units other than the current one: those expected next. If the order is unknown, the previous unit, since two may alternate, such as a
// layer and a tied weight.
std::vector<size_t> UnitOrder::next(const Place& place) const {
  const bool lost = place.position > learnt_.size();
  if (lost) return place.before ? std::vector<size_t>{*place.before} : std::vector<size_t>{};
  std::vector<size_t> units;
  for (size_t i = place.position; i < learnt_.size() && units.size() < std::max<size_t>(ahead_, 1); ++i) {
    const size_t unit = learnt_[i];
    const bool is_kept = kept_[unit] && has_[unit];
    if (!is_kept && unit != place.unit && !contains(units, unit)) units.push_back(unit);
  }
  return units;
}

}  // namespace tw
