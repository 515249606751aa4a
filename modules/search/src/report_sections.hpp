// SPDX-License-Identifier: Apache-2.0
// The sections of the HTML report of a search. Each function returns HTML, which is empty if there is nothing to show.
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

/// The data of the sections. Borrows its arguments.
struct Findings {
  Findings(const Ledger& ledger, const Space& space);

  const Ledger& ledger;
  const Space& space;
  UnbrokenClock clock;
  std::vector<const LedgerEntry*> ranked = {};  ///< entries that count (Individual::has_comparable_loss()), best first
  std::vector<const LedgerEntry*> ended = {};   ///< ended entries, in the order in which they ended
  std::optional<LossForest> forest = {};        ///< none if there are too few trials

  /// The loss at a rank. At least one entry must count. @param share rank among the entries that count: 0 for the best, 1 for the worst
  double loss_at(double share) const;
};

std::string summary_section(const Findings& findings);
std::string progress_section(const Findings& findings);
std::string best_section(const Findings& findings);
/// For several objectives: the front, and the growth of its hypervolume.
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
/// The JavaScript that sorts and filters the table of trials_section(). Contains neither < nor &.
const char* trials_script();
std::string failures_section(const Findings& findings);

/// "trial 7, complete, loss 0.25: lr=0.01 layers=4"; a long configuration is cut.
std::string tip_of(const LedgerEntry& entry, const Space& space);
/// "complete" and so on; "not ended" for a running trial.
std::string state_text(TrialState state);
const char* colour_of(TrialState state);
/// Drawings next to each other; as many in a row as fit.
std::string side_by_side(const std::string& drawings);
/// A small text below a drawing. @param text plain text, not HTML
std::string note(const std::string& text);
/// "1.5 s", "20 min", "3.2 h", "2.1 d"
std::string duration_text(double seconds);
/// "50", or "50 of 1000".
std::string share_text(size_t shown, size_t all);
/// The same for chosen_ranks(), with a remark on how they were chosen.
std::string chosen_text(size_t shown, size_t all);

}  // namespace tw::search
