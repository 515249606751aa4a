// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <tw/evolution/standing.hpp>
#include <vector>

namespace tw::search {

enum class TrialState : uint8_t {
  running,
  complete,    ///< with a finite loss
  pruned,      ///< stopped early; its loss is the last that it reported
  failed,      ///< an exception, NaN, a time-out, or its process was lost
  infeasible,  ///< it violates a constraint: of the space, and then it was not evaluated, or one that its evaluation gave values of
};

/// "running", "complete", ...
const char* name_of(TrialState state) noexcept;

/// What a propagator notes on a proposal to know it again when its loss comes back.
struct Tag {
  int32_t run = 0;         ///< restarts of the optimizer
  int32_t generation = 0;  ///< such as the version of a distribution
  int32_t index = 0;       ///< such as a particle, or a sample of the generation
  bool operator==(const Tag&) const = default;
};

/// A configuration, and what is known of it.
struct Individual {
  int64_t trial = -1;                                     ///< unique in a search
  std::vector<double> values = {};                        ///< in the order of the space; NaN for what does not exist
  double loss = std::numeric_limits<double>::infinity();  ///< smaller is better; of several objectives the first
  std::vector<double> objectives = {};                    ///< where there are several: all of them, in their order. Otherwise empty
  double violation = 0;                                   ///< sum of the values above 0 that its evaluation gave for constraints
  TrialState state = TrialState::running;
  Tag tag = {};
  int32_t worker = 0;
  int32_t island = 0;
  int32_t moves = 0;   ///< from island to island
  double seconds = 0;  ///< of the evaluation

  /// Whether it has losses to be compared by: failed and infeasible ones have none, nor has what has no number as its loss.
  bool counts() const noexcept { return (state == TrialState::complete || state == TrialState::pruned) && !std::isnan(loss); }
  /// Whether at least its violation is known, so that it may be a parent where there is nothing better. Ref: Deb 2000.
  bool violates() const noexcept { return state == TrialState::infeasible && violation > 0 && !std::isnan(loss); }
  /// By what propagators compare it, of several objectives by the first.
  Standing standing() const noexcept { return counts() ? Standing{0, loss} : violates() ? Standing{violation, loss} : Standing{}; }
  /// All objectives, also where there is one.
  std::span<const double> all_objectives() const noexcept { return objectives.empty() ? std::span(&loss, 1) : std::span(objectives); }
};

/// What is to be evaluated next.
struct Proposal {
  std::vector<double> values = {};
  Tag tag = {};
};

}  // namespace tw::search
