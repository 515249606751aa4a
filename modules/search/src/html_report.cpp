// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/hash.hpp>
#include <tw/base/number_text.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/search/report.hpp>

#include "report_sections.hpp"
#include "shortened.hpp"

namespace tw::search {
namespace {

constexpr size_t longest_configuration = 160;  // in tooltips, of which there are thousands; the list of trials shows all of it

constexpr const char* page_begin = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
)";
constexpr const char* page_head = R"(<title>Search</title>
<style>
body { font: 14px sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 22px; } h2 { font-size: 17px; margin-top: 2em; }
p { line-height: 1.4; } .note { color: #666; font-size: 12px; }
.wide { overflow-x: auto; } .charts { display: flex; flex-wrap: wrap; }
.trials { max-height: 600px; overflow: auto; } .trials .wide { overflow: visible; } #trials label { margin-right: 1em; }
.trials th { position: sticky; top: 0; background: #fff; cursor: pointer; } .trials th::after { content: attr(data-sorted); }
table { border-collapse: collapse; font-size: 13px; } td, th { padding: 3px 10px; border-bottom: 1px solid #e4e4e4; text-align: left; white-space: nowrap; }
.matrix td { text-align: right; }
svg text { font: 11px sans-serif; fill: #222; paint-order: stroke; stroke: #fff; stroke-width: 3px; }
polyline { fill: none; } .curve { stroke-width: 2; } .trial { stroke-width: 1; stroke-opacity: 0.6; } .trial.faint { stroke-opacity: 0.25; }
.trial:hover, .trial.faint:hover { stroke: #000; stroke-width: 3; stroke-opacity: 1; }
.seen { stroke: #222; stroke-width: 0.5; }
</style>
</head>
<body>
)";

/// Lets browsers load nothing and run only the page's own script, whatever names or messages contain: the script's nonce depends on the whole page.
std::string policy(const std::string& number) {
  return "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-" + number +
         "'\"/>\n";
}

}  // namespace

Findings::Findings(const Ledger& the_ledger, const Space& the_space) : ledger(the_ledger), space(the_space), clock(the_ledger) {
  for (const LedgerEntry& entry : ledger.trials) {
    if (entry.has_ended()) ended.push_back(&entry);
    if (entry.individual.has_comparable_loss()) ranked.push_back(&entry);
  }
  std::ranges::stable_sort(ended, {}, [](const LedgerEntry* entry) { return entry->end; });
  std::ranges::stable_sort(ranked, {}, [](const LedgerEntry* entry) { return entry->individual.loss; });
  forest = loss_forest_of(ranked, space);
}

double Findings::loss_at(double share) const {
  return ranked[static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * static_cast<double>(ranked.size() - 1)))]->individual.loss;
}

std::string tip_of(const LedgerEntry& entry, const Space& space) {
  const Individual& individual = entry.individual;
  const std::string loss = individual.has_comparable_loss() ? ", loss " + brief_text(individual.loss) : "";
  return concat("trial ", individual.trial, ", ", state_text(individual.state), loss, ": ",
                shortened(Configuration(space, individual.values).describe(), longest_configuration));
}

std::string state_text(TrialState state) { return state == TrialState::running ? "not ended" : name_of(state); }

// Colours that colour-blind people can distinguish. Ref: Okabe & Ito 2008.
const char* colour_of(TrialState state) {
  switch (state) {
    case TrialState::running: return "#999999";
    case TrialState::complete: return "#0072b2";
    case TrialState::pruned: return "#e69f00";
    case TrialState::failed: return "#d55e00";
    case TrialState::infeasible: break;
  }
  return "#cc79a7";
}

std::string duration_text(double seconds) {
  if (seconds < 120) return brief_text(seconds) + " s";
  if (seconds < 120 * 60) return brief_text(seconds / 60) + " min";
  if (seconds < 48 * 3600) return brief_text(seconds / 3600) + " h";
  return brief_text(seconds / (24 * 3600)) + " d";
}

std::string side_by_side(const std::string& drawings) { return "<div class=\"charts\">" + drawings + "</div>\n"; }

std::string note(const std::string& text) { return "<p class=\"note\">" + escaped(text) + "</p>\n"; }

std::string share_text(size_t shown, size_t all) { return shown == all ? concat(all) : concat(shown, " of ", all); }

std::string chosen_text(size_t shown, size_t all) {
  return share_text(shown, all) +
         (shown == all ? "" : concat(", thinned out: the best ", shown / 5, ", and others spread over all ranks of the loss"));
}

std::string html_report(const Ledger& ledger, const Space& space) {
  const Findings findings(ledger, space);
  std::string body;
  for (const auto section : {summary_section, progress_section, best_section, front_section, curves_section, parallel_section, slices_section,
                             importance_section, contours_section, workers_section, islands_section, failures_section, trials_section}) {
    body += section(findings);
  }
  const std::string number = hex_text(content_hash(body));
  return page_begin + policy(number) + page_head + body + "<script nonce=\"" + number + "\">" + trials_script() + "</script>\n</body>\n</html>\n";
}

}  // namespace tw::search
