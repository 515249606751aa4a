// SPDX-License-Identifier: Apache-2.0
// Which units of parameters are gathered when, and released. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tw {

/// Which units are kept once they are gathered, until their slices change: all, where they are as many as are gathered at a time; or else the
/// smallest ones that take at most `keep_bytes` together. @param bytes by unit. @param ahead see UnitOrder
std::vector<bool> kept_units(const std::vector<int64_t>& bytes, size_t ahead, int64_t keep_bytes);

/// Learns from each pass in which order its operators take units, and looks ahead in the next one. A pass that goes another way is still served, each
/// unit when it is taken. The same uses give the same moves on every rank, so that gatherings meet.
class UnitOrder {
 public:
  /// @param kept by unit: it is not among those to release. @param ahead units that are gathered before they are taken
  UnitOrder(std::vector<bool> kept, size_t ahead) : ahead_(ahead), kept_(std::move(kept)), has_(kept_.size()) {}

  /// What to do before an operator, in this order.
  struct Moves {
    std::vector<size_t> release;
    std::vector<size_t> gather;  ///< those that it takes
    std::vector<size_t> ahead;   ///< those that come next
    bool empty() const noexcept { return release.empty() && gather.empty() && ahead.empty(); }
  };
  /// An operator takes `units`. @param evaluates in a pass that no backward pass follows: nothing is learnt of it, and the one that is learnt goes on
  Moves use(std::span<const size_t> units, bool evaluates = false);
  /// The pass is over: what it learnt is for the next one. @return all that is gathered and not kept
  std::vector<size_t> end_pass();
  /// The unit is not gathered any more.
  void forget(size_t unit) { has_[unit] = false; }
  bool has(size_t unit) const { return has_[unit]; }

 private:
  /// How far a pass has come.
  struct Place {
    std::optional<size_t> unit, before;  // that it takes, and took before it
    size_t position = 0;                 // in `learnt_`, after the last use; size() + 1: the pass took a different order
  };
  void learn(size_t unit);
  void follow(size_t unit);
  std::vector<size_t> next(const Place& place) const;

  size_t ahead_;
  std::vector<bool> kept_;       // by unit
  std::vector<bool> has_;        // by unit, whether it is gathered, or is about to be
  std::vector<size_t> learnt_;   // of the last pass, each unit once for consecutive uses
  std::vector<size_t> current_;  // of this one
  Place training_, evaluation_;
};

}  // namespace tw
