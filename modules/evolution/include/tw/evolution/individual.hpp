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
  pruned,      ///< stopped early; its loss is its last report
  failed,      ///< threw, returned NaN or infinity, timed out, or lost its process
  infeasible,  ///< violates a constraint of the space (it was then not evaluated), or its evaluation returned a positive constraint value
};

/// The name of a state: "running", "complete", ...
const char* name_of(TrialState state) noexcept;

/// A propagator's label on a proposal, by which it recognises the result.
struct Tag {
  int32_t run = 0;         ///< number of restarts of the optimizer before this proposal
  int32_t generation = 0;  ///< for example, the version of a distribution
  int32_t index = 0;       ///< for example, the index of a particle, or of a sample in its generation
  bool operator==(const Tag&) const = default;
};

/// A configuration and its result.
struct Individual {
  int64_t trial = -1;                                     ///< unique in a search
  std::vector<double> values = {};                        ///< in the order of the space; NaN for parameters that do not exist
  double loss = std::numeric_limits<double>::infinity();  ///< smaller is better; with several objectives, the first one
  std::vector<double> objectives = {};                    ///< all objectives in order if there are several; otherwise empty
  double violation = 0;                                   ///< sum of the positive constraint values that its evaluation returned
  TrialState state = TrialState::running;
  Tag tag = {};
  int32_t worker = 0;
  int32_t island = 0;
  int32_t moves = 0;   ///< number of migrations between islands
  double seconds = 0;  ///< duration of the evaluation

  /// Whether its losses can be compared. False for running, failed and infeasible trials, and for a loss of NaN.
  bool has_comparable_loss() const noexcept { return (state == TrialState::complete || state == TrialState::pruned) && !std::isnan(loss); }
  /// Whether its violation is known, so that it may be a parent if no better individual exists. Ref: Deb 2000.
  bool has_known_violation() const noexcept { return state == TrialState::infeasible && violation > 0 && !std::isnan(loss); }
  /// The key by which propagators compare individuals. With several objectives, it uses the first one.
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
