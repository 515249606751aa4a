// SPDX-License-Identifier: Apache-2.0
// A lane for each worker, with its trials over time.
#include <algorithm>
#include <array>
#include <cmath>
#include <tw/base/concat.hpp>

#include "axis.hpp"
#include "finite_text.hpp"
#include "report_sections.hpp"

namespace tw::search {
namespace {

constexpr struct {
  double width = 940;
  double left = 150;
  double right = 20;
  double top = 28;
  double bottom = 44;
} box_chart;
constexpr double most_boxes = 5000;
// The earlier ones hide the later ones of their cell.
constexpr std::array order{TrialState::failed, TrialState::infeasible, TrialState::running, TrialState::pruned, TrialState::complete};

bool hides(TrialState a, TrialState b) { return std::ranges::find(order, a) < std::ranges::find(order, b); }

/// Trials of a worker that are drawn as one.
struct Box {
  double from;
  double to;
  TrialState state;
  const LedgerEntry* first;
  int64_t trials = 1;
};

/// @param trials in the order of time. @param cell what is shorter, in seconds, is joined with what precedes it within a cell
std::vector<Box> boxes_of(const std::vector<const LedgerEntry*>& trials, const UnbrokenClock& clock, double cell) {
  std::vector<Box> boxes;
  for (const LedgerEntry* entry : trials) {
    const TrialState state = entry->individual.state;
    const Box box{.from = clock.at(entry->begin), .to = clock.at(entry->last_sign), .state = state, .first = entry};
    if (boxes.empty() || box.to - boxes.back().from > cell) {
      boxes.push_back(box);
      continue;
    }
    Box& last = boxes.back();
    last.to = std::max(last.to, box.to);
    ++last.trials;
    if (hides(state, last.state)) last.state = state;
  }
  return boxes;
}

/// "worker 3", "worker 3 (2 ranks)"
std::string name_of_worker(const Ledger& ledger, size_t worker) {
  const int ranks = worker < ledger.worker_ranks.size() ? ledger.worker_ranks[worker] : 1;
  return ranks == 1 ? concat("worker ", worker) : concat("worker ", worker, " (", ranks, " ranks)");
}

}  // namespace

std::string workers_section(const Findings& findings) {
  const Ledger& ledger = findings.ledger;
  if (ledger.trials.empty()) return "";
  std::vector<std::vector<const LedgerEntry*>> lanes(static_cast<size_t>(ledger.workers));
  for (const LedgerEntry& entry : ledger.trials) lanes[static_cast<size_t>(entry.worker)].push_back(&entry);
  const double lane_height = std::clamp(600.0 / static_cast<double>(lanes.size()), 12.0, 24.0);
  const Axis axis(0, findings.clock.total(), /*logarithmic=*/false);
  const double cell = findings.clock.total() * std::max(0.5 / box_chart.width, static_cast<double>(lanes.size()) / most_boxes);
  const double lanes_bottom = box_chart.top + lane_height * static_cast<double>(lanes.size());
  Svg svg(box_chart.left + box_chart.width + box_chart.right, lanes_bottom + box_chart.bottom);
  double legend = box_chart.left;
  for (const TrialState state : order) {
    svg.rect({legend, 6}, 10, 10, colour_of(state));
    svg.text({legend + 14, 15}, "start", state_text(state));
    legend += 90;
  }
  for (const double tick : axis.ticks()) {
    const double x = box_chart.left + box_chart.width * axis.place(tick);
    svg.line({x, box_chart.top}, {x, lanes_bottom}, "#e4e4e4");
    svg.text({x, lanes_bottom + 16}, "middle", brief_text(tick));
  }
  svg.text({box_chart.left + box_chart.width / 2, lanes_bottom + 36}, "middle", "seconds");
  size_t drawn = 0;
  for (size_t worker = 0; worker < lanes.size(); ++worker) {
    auto& trials = lanes[worker];
    std::ranges::stable_sort(trials, {}, [](const LedgerEntry* entry) { return entry->begin; });
    double busy = 0;
    for (const LedgerEntry* entry : trials) busy += entry->has_ended() ? entry->individual.seconds : 0;
    const double y = box_chart.top + lane_height * static_cast<double>(worker);
    const double share = findings.clock.total() > 0 ? std::min(1.0, busy / findings.clock.total()) : 0;
    svg.text({box_chart.left - 6, y + lane_height / 2 + 4}, "end", concat(name_of_worker(ledger, worker), ", ", std::lround(100 * share), " %"));
    for (const Box& box : boxes_of(trials, findings.clock, cell)) {
      const double from = box_chart.left + box_chart.width * axis.place(box.from);
      const double to = box_chart.left + box_chart.width * axis.place(box.to);
      const std::string more = box.trials > 1 ? concat("; and ", box.trials - 1, " more") : "";
      svg.rect({from, y + 1}, std::max(0.5, to - from), lane_height - 2, colour_of(box.state), tip_of(*box.first, findings.space) + more);
      ++drawn;
    }
  }
  std::string note = "A lane a worker, and the share of time that it was evaluating. Of trials that began more than once, the last time is drawn.";
  if (drawn < ledger.trials.size()) {
    note += concat(" Thinned out: ", ledger.trials.size(), " trials are drawn as ", drawn, " boxes, since those within ", duration_text(cell),
                   " are joined, in the colour of the state that is first in the legend.");
  }
  return element("h2", "Workers") + svg.in_page() + "<p class=\"note\">" + escaped(note) + "</p>\n";
}

}  // namespace tw::search
