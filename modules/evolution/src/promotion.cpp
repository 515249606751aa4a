// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/promotion.hpp>

#include <cmath>
#include <optional>
#include <set>
#include <tw/base/contract.hpp>

#include "rung.hpp"

namespace tw::search {

/// Values that reached a rung, and the trials that wait there.
class PromotionRung {
 public:
  explicit PromotionRung(int64_t eta) : values_(eta, 0) {}

  void add(const Rung::Entry& entry, bool waits) {
    values_.add(entry);
    if (waits) waiting_.insert(entry);
  }
  /// Removes and returns the best waiting trial, if it is among the best of all. If it is not, no waiting trial is.
  std::optional<int64_t> take() {
    if (waiting_.empty() || !values_.has_among_best(*waiting_.begin())) return std::nullopt;
    return waiting_.extract(waiting_.begin()).value().trial;
  }

 private:
  Rung values_;
  std::set<Rung::Entry> waiting_;
};

Promotion::Promotion(const HalvingOptions& options) {
  options.validate();
  for (int64_t steps = options.grace;; steps *= options.eta) {
    steps_.push_back(steps);
    rungs_.emplace_back(options.eta);
    if (steps > options.max_steps / options.eta) break;
  }
}

Promotion::~Promotion() = default;

int Promotion::rungs() const noexcept { return static_cast<int>(rungs_.size()); }

int64_t Promotion::steps(int rung) const {
  TW_EXPECTS(rung >= 0 && rung < rungs(), "there is no rung ", rung, ": the number of rungs is ", rungs());
  return steps_[static_cast<size_t>(rung)];
}

std::pair<int, int> Promotion::reached(const Report& report) {
  if (std::isnan(report.value)) return {0, 0};
  int& next = next_rung_[report.trial];
  const int first = next;
  while (next < rungs() && steps(next) <= report.step) ++next;
  return {first, next};
}

/// If reports are rare, a trial may pass several rungs at the same time. It then waits only at the last of them.
bool Promotion::arrive(const Report& report) {
  const auto [first, end] = reached(report);
  for (int rung = first; rung < end; ++rung) rungs_[static_cast<size_t>(rung)].add({report.value, report.trial}, /*waits=*/rung == end - 1);
  return end > first && end < rungs();
}

void Promotion::observe(const Report& report) {
  const auto [first, end] = reached(report);
  for (int rung = first; rung < end; ++rung) rungs_[static_cast<size_t>(rung)].add({report.value, report.trial}, /*waits=*/false);
}

Promotion::Promoted Promotion::next() {
  for (int rung = rungs() - 2; rung >= 0; --rung) {
    if (const auto trial = rungs_[static_cast<size_t>(rung)].take()) return {*trial, rung + 1};
  }
  return {};
}

}  // namespace tw::search
