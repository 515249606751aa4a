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
  complete,    ///< evaluated, with a finite loss
  pruned,      ///< stopped early; its last report is its loss
  failed,      ///< threw, returned NaN or infinity, timed out, or lost its process
  infeasible,  ///< violates a constraint of the space, in which case it was not evaluated; or its evaluation returned a positive constraint value
};

/// The name of a state: "running", "complete", ...
const char* name_of(TrialState state) noexcept;

/// The label of a proposal, by which its propagator recognises the result. A propagator is an algorithm that proposes configurations
/// (propagator.hpp).
struct Tag {
  int32_t run = 0;         ///< identifies the propagator's run, for example by the number of restarts before this proposal
  int32_t generation = 0;  ///< for example, the version of a distribution
  int32_t index = 0;       ///< for example, the index of a particle, or of a sample in its generation
  bool operator==(const Tag&) const = default;
};

/// A configuration and its result.
struct Individual {
  int64_t trial = -1;                                     ///< unique in a search
  std::vector<double> values = {};                        ///< in the order of the space; NaN for conditional parameters that do not exist here
  double loss = std::numeric_limits<double>::infinity();  ///< smaller is better; with several objectives, the first one
  std::vector<double> objectives = {};                    ///< all objectives in order if there are several; otherwise empty
  double violation = 0;                                   ///< sum of the positive constraint values that its evaluation returned
  TrialState state = TrialState::running;
  Tag tag = {};
  int32_t worker = 0;
  int32_t island = 0;
  int32_t moves = 0;   ///< number of migrations between islands
  double seconds = 0;  ///< duration of the evaluation

  /// Whether this individual's loss can be compared. False for running, failed and infeasible trials, and for a loss of NaN.
  bool has_comparable_loss() const noexcept { return (state == TrialState::complete || state == TrialState::pruned) && !std::isnan(loss); }
  /// Whether this individual is infeasible with a known violation. Such individuals rank after all feasible ones; they may be parents if no better
  /// individual exists. Ref: Deb 2000.
  bool has_known_violation() const noexcept { return state == TrialState::infeasible && violation > 0 && !std::isnan(loss); }
  /// The key by which propagators compare individuals. With several objectives, the key uses the first one.
  Standing standing() const noexcept {
    return has_comparable_loss() ? Standing{0, loss} : has_known_violation() ? Standing{violation, loss} : Standing{};
  }
  /// All objectives; the loss alone if there is only one.
  std::span<const double> all_objectives() const noexcept { return objectives.empty() ? std::span(&loss, 1) : std::span(objectives); }
};

/// A configuration to evaluate.
struct Proposal {
  std::vector<double> values = {};
  Tag tag = {};
};

}  // namespace tw::search
