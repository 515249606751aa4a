// SPDX-License-Identifier: Apache-2.0
// Decides when units of parameters are gathered and released. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tw {

/// Whether each unit stays gathered until its slices change. All do if there are no more than are gathered at the same time; otherwise the smallest
/// ones that fit into `resident_bytes` together. @param bytes by unit. @param ahead see UnitOrder
std::vector<bool> kept_units(const std::vector<int64_t>& bytes, size_t ahead, int64_t resident_bytes);

/// When an operator uses units.
struct UseMoment {
  /// evaluation: gradients are disabled, so no backward pass follows
  enum class Pass { forward, backward, evaluation };
  Pass pass = Pass::forward;
  /// Autograd's sequence number: of the next node to be created in a forward pass, of the running node in a backward pass.
  uint64_t number = 0;
};

/// Learns in each pass the order in which operators use units, and prefetches in this order in the next pass. A pass with a different order still
/// works: each unit is gathered when it is used. Forward passes without a backward pass are not learnt. The same uses give the same moves on every
/// rank, so that the ranks' all-gathers match.
class UnitOrder {
 public:
  /// @param kept by unit: never released here. @param ahead units gathered before their use
  UnitOrder(std::vector<bool> kept, size_t ahead) : ahead_(ahead), kept_(std::move(kept)), has_(kept_.size()), oldest_(none) {}

  /// What to do before an operator, in this order.
  struct Moves {
    std::vector<size_t> release;
    std::vector<size_t> gather;  ///< units that the operator uses
    std::vector<size_t> ahead;   ///< units to prefetch, expected next
    bool empty() const noexcept { return release.empty() && gather.empty() && ahead.empty(); }
  };
  /// An operator uses `units`. Evaluations teach nothing and only interrupt the pass being learnt.
  Moves use(std::span<const size_t> units, const UseMoment& moment);
  /// A backward pass has ended: the next pass follows the order of this one and its forward passes. @return all gathered units that are not kept
  std::vector<size_t> end_pass();
  /// Call when the unit is no longer gathered.
  void forget(size_t unit) { has_[unit] = false; }
  bool has(size_t unit) const { return has_[unit]; }

 private:
  static constexpr uint64_t none = std::numeric_limits<uint64_t>::max();

  /// Progress of a pass.
  struct Place {
    std::optional<size_t> unit, before;  // used now, and before it
    size_t position = 0;                 // in `learnt_`, after the last use; size() + 1: the pass took a different order
  };
  struct Use {
    size_t unit;
    bool starts;      // possibly a forward pass
    uint64_t number;  // see UseMoment
  };
  void learn(size_t unit, const UseMoment& moment);
  void note(size_t unit, const UseMoment& moment);
  bool begins(const Place& place) const;
  void follow(size_t unit);
  std::vector<size_t> next(const Place& place) const;

  size_t ahead_;
  std::vector<bool> kept_;      // by unit
  std::vector<bool> has_;       // by unit: gathered, or about to be
  std::vector<size_t> learnt_;  // order of the last pass; consecutive uses of a unit count once
  std::vector<Use> current_;    // uses since then, likewise
  size_t last_start_ = 0;       // in `current_`
  uint64_t oldest_;             // sequence number of the oldest node run in backward passes since then; `none` if there is none
  Place training_, evaluation_;
};

}  // namespace tw
