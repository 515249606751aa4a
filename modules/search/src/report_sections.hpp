// SPDX-License-Identifier: Apache-2.0
// What the page of a search consists of: HTML of one section each; empty where there is nothing to show.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <tw/report/markup.hpp>
#include <tw/report/svg.hpp>
#include <tw/search/ledger.hpp>
#include <vector>

#include "loss_forest.hpp"
#include "unbroken_clock.hpp"

namespace tw::search {

using report::element;
using report::escaped;
using report::Point;
using report::row;
using report::Svg;
using report::table;

inline constexpr std::array states{TrialState::complete, TrialState::pruned, TrialState::failed, TrialState::infeasible, TrialState::running};

/// What the sections are about. Borrows.
struct Findings {
  Findings(const Ledger& ledger, const Space& space);

  const Ledger& ledger;
  const Space& space;
  UnbrokenClock clock;
  std::vector<const LedgerEntry*> ranked = {};  ///< those that count, from the best
  std::vector<const LedgerEntry*> ended = {};   ///< in the order in which they ended
  std::optional<LossForest> forest = {};        ///< where there are enough trials for one

  /// @param share of the ranks of those that count, one at least: 0 the best, 1 the worst
  double loss_at(double share) const;
};

std::string summary_section(const Findings& findings);
std::string progress_section(const Findings& findings);
std::string best_section(const Findings& findings);
/// Of several objectives: the front, and how its hypervolume has grown.
std::string front_section(const Findings& findings);
std::string curves_section(const Findings& findings);
std::string parallel_section(const Findings& findings);
std::string slices_section(const Findings& findings);
std::string importance_section(const Findings& findings);
std::string contours_section(const Findings& findings);
std::string workers_section(const Findings& findings);
std::string islands_section(const Findings& findings);
/// A table that can be sorted and filtered by script; see trials_script().
std::string trials_section(const Findings& findings);
/// Of the page of trials_section(): JavaScript without < and &.
const char* trials_script();
std::string failures_section(const Findings& findings);

/// "trial 7, complete, loss 0.25: lr=0.01 layers=4"; a long configuration is cut.
std::string tip_of(const LedgerEntry& entry, const Space& space);
/// "complete"; of what has not ended, "not ended".
std::string state_text(TrialState state);
const char* colour_of(TrialState state);
/// Drawings beside each other, as many as there is room for.
std::string side_by_side(const std::string& drawings);
/// A small text below a drawing. @param text plain
std::string note(const std::string& text);
/// "1.5 s", "20 min", "3.2 h", "2.1 d"
std::string duration_text(double seconds);
/// "50", or "50 of 1000".
std::string share_text(size_t shown, size_t all);
/// The same of chosen_ranks().
std::string chosen_text(size_t shown, size_t all);

}  // namespace tw::search
