// SPDX-License-Identifier: Apache-2.0
#include "unit_order.hpp"

#include <algorithm>
#include <numeric>

namespace tw {
namespace {

bool contains(std::span<const size_t> units, size_t unit) { return std::find(units.begin(), units.end(), unit) != units.end(); }

}  // namespace

std::vector<bool> kept_units(const std::vector<int64_t>& bytes, size_t ahead, int64_t keep_bytes) {
  if (bytes.size() <= 1 + std::max<size_t>(ahead, 1)) return std::vector<bool>(bytes.size(), true);
  std::vector<size_t> units(bytes.size());
  std::iota(units.begin(), units.end(), size_t{0});
  std::stable_sort(units.begin(), units.end(), [&](size_t a, size_t b) { return bytes[a] < bytes[b]; });
  std::vector<bool> kept(bytes.size());
  for (const size_t unit : units) {
    if (bytes[unit] > keep_bytes) break;
    keep_bytes -= bytes[unit];
    kept[unit] = true;
  }
  return kept;
}

UnitOrder::Moves UnitOrder::use(std::span<const size_t> units) {
  for (const size_t unit : units) advance(unit);
  Moves moves;
  const std::vector<size_t> soon = next();
  moves.ahead.assign(soon.begin(), soon.begin() + static_cast<std::ptrdiff_t>(std::min(ahead_, soon.size())));
  const auto stays = [&](size_t unit) { return contains(units, unit) || contains(soon, unit); };
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
  learnt_ = std::move(current_);
  current_.clear();
  position_ = 0;
  std::vector<size_t> all;
  for (size_t unit = 0; unit < has_.size(); ++unit) {
    if (has_[unit] && !kept_[unit]) all.push_back(unit);
  }
  for (const size_t unit : all) has_[unit] = false;
  return all;
}

void UnitOrder::advance(size_t unit) {
  if (!current_.empty() && current_.back() == unit) return;
  current_.push_back(unit);
  const auto lost = learnt_.size() + 1;
  if (position_ == lost) return;
  const auto found = std::find(learnt_.begin() + static_cast<std::ptrdiff_t>(position_), learnt_.end(), unit);
  position_ = found == learnt_.end() ? lost : static_cast<size_t>(found - learnt_.begin()) + 1;
}

// Units that differ from the one that is taken, and from each other: those that come next or, without a way that is known, the one that came before,
// since two may take turns, such as a layer and a tied weight.
std::vector<size_t> UnitOrder::next() const {
  const bool lost = position_ > learnt_.size();
  if (lost) return current_.size() < 2 ? std::vector<size_t>{} : std::vector<size_t>{current_[current_.size() - 2]};
  std::vector<size_t> units;
  for (size_t i = position_; i < learnt_.size() && units.size() < std::max<size_t>(ahead_, 1); ++i) {
    const size_t unit = learnt_[i];
    const bool is_kept = kept_[unit] && has_[unit];
    if (!is_kept && unit != current_.back() && !contains(units, unit)) units.push_back(unit);
  }
  return units;
}

}  // namespace tw
