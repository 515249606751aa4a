// SPDX-License-Identifier: Apache-2.0
// Which units of parameters are gathered when, and released. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tw {

/// Which units are kept once they are gathered, until their slices change: all, where they are as many as are gathered at a time; or else the
/// smallest ones that take at most `resident_bytes` together. @param bytes by unit. @param ahead see UnitOrder
std::vector<bool> kept_units(const std::vector<int64_t>& bytes, size_t ahead, int64_t resident_bytes);

/// When an operator takes units.
struct UseMoment {
  enum class Pass { forward, backward, evaluation };  ///< evaluation: gradients are disabled, so that no backward pass follows
  Pass pass = Pass::forward;
  uint64_t number = 0;  ///< autograd's; in a forward pass, of the node that is made next; in a backward pass, of the node that runs
};

/// Learns from each pass in which order its operators take units, and looks ahead in the next one. A pass that goes another way is still served, each
/// unit when it is taken. Forward passes that no backward pass has followed are not learnt. The same uses give the same moves on every rank, so that
/// gatherings meet.
class UnitOrder {
 public:
  /// @param kept by unit: it is not among those to release. @param ahead units gathered ahead of their use
  UnitOrder(std::vector<bool> kept, size_t ahead) : ahead_(ahead), kept_(std::move(kept)), has_(kept_.size()), oldest_(none) {}

  /// What to do before an operator, in this order.
  struct Moves {
    std::vector<size_t> release;
    std::vector<size_t> gather;  ///< those that it takes
    std::vector<size_t> ahead;   ///< those that come next
    bool empty() const noexcept { return release.empty() && gather.empty() && ahead.empty(); }
  };
  /// An operator takes `units`. Nothing is learnt of evaluations, and the pass that is being learnt resumes after them.
  Moves use(std::span<const size_t> units, const UseMoment& moment);
  /// A backward pass is over: what it and its forward passes have learnt is for the next one. @return all that is gathered and not kept
  std::vector<size_t> end_pass();
  /// The unit is not gathered any more.
  void forget(size_t unit) { has_[unit] = false; }
  bool has(size_t unit) const { return has_[unit]; }

 private:
  static constexpr uint64_t none = std::numeric_limits<uint64_t>::max();

  /// How far a pass has come.
  struct Place {
    std::optional<size_t> unit, before;  // that it takes, and took before it
    size_t position = 0;                 // in `learnt_`, after the last use; size() + 1: the pass took a different order
  };
  struct Use {
    size_t unit;
    bool starts;      // perhaps a forward pass
    uint64_t number;  // see UseMoment
  };
  void learn(size_t unit, const UseMoment& moment);
  void note(size_t unit, const UseMoment& moment);
  bool begins(const Place& place) const;
  void follow(size_t unit);
  std::vector<size_t> next(const Place& place) const;

  size_t ahead_;
  std::vector<bool> kept_;      // by unit
  std::vector<bool> has_;       // by unit, whether it is gathered, or is about to be
  std::vector<size_t> learnt_;  // of the last pass, each unit once for consecutive uses
  std::vector<Use> current_;    // since then, in the same way
  size_t last_start_ = 0;       // in `current_`
  uint64_t oldest_;             // of the nodes that have run in backward passes since then; the largest number without any
  Place training_, evaluation_;
};

}  // namespace tw
