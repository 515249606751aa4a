// SPDX-License-Identifier: Apache-2.0
// A lane for each worker, with its trials over time.
#include <algorithm>
#include <array>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

#include "axis.hpp"
#include "lanes.hpp"
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
constexpr double max_boxes = 5000;
// The earlier ones hide the later ones of their cell.
constexpr std::array order{TrialState::failed, TrialState::infeasible, TrialState::running, TrialState::pruned, TrialState::complete};

bool hides(TrialState a, TrialState b) { return std::ranges::find(order, a) < std::ranges::find(order, b); }

/// Trials of a row that are drawn as one.
struct Box {
  double from;
  double to;
  TrialState state;
  const LedgerEntry* first;
  int64_t trials = 1;
};

/// @param stretches of a row, in the order of time. @param cell what is shorter, in seconds, is joined with what precedes it within a cell
std::vector<Box> boxes_of(const std::vector<Stretch>& stretches, const UnbrokenClock& clock, double cell) {
  std::vector<Box> boxes;
  for (const Stretch& stretch : stretches) {
    const TrialState state = stretch.entry->individual.state;
    const Box box{.from = clock.at(stretch.from), .to = clock.at(stretch.to), .state = state, .first = stretch.entry};
    if (boxes.empty() || box.to - boxes.back().from > cell) {
      boxes.push_back(box);
      continue;
    }
    Box& last = boxes.back();
    last.to = std::max(last.to, box.to);
    last.trials += stretch.is_first ? 1 : 0;
    if (hides(state, last.state)) last.state = state;
  }
  return boxes;
}

/// "worker 3", "worker 3 (2 ranks)"
std::string name_of_worker(const Ledger& ledger, size_t worker) {
  const int ranks = worker < ledger.worker_ranks.size() ? ledger.worker_ranks[worker] : 1;
  return ranks == 1 ? concat("worker ", worker) : concat("worker ", worker, " (", ranks, " ranks)");
}

/// In which a worker was evaluating: for a trial of its own, once it has ended, and all of it at its first stretch.
double busy_s(const Stretch& stretch, int worker) {
  if (stretch.entry->worker != worker) return stretch.to - stretch.from;
  return stretch.is_first && stretch.entry->has_ended() ? stretch.entry->individual.seconds : 0;
}

/// Of the time of a search, the share in which a worker was evaluating.
double busy_share(const Lane& lane, int worker, double total) {
  double busy = 0;
  for (const auto& row : lane) {
    for (const Stretch& stretch : row) busy += busy_s(stretch, worker);
  }
  return total > 0 ? std::min(1.0, busy / total) : 0;
}

}  // namespace

std::string workers_section(const Findings& findings) {
  const Ledger& ledger = findings.ledger;
  if (ledger.trials.empty()) return "";
  const std::vector<Lane> lanes = lanes_of(ledger);
  size_t rows = 0;
  size_t stretches = 0;
  for (const Lane& lane : lanes) {
    rows += std::max<size_t>(1, lane.size());
    for (const auto& row : lane) stretches += row.size();
  }
  const double row_height = std::clamp(600.0 / static_cast<double>(rows), 3.0, 24.0);
  const auto height_of = [&](const Lane& lane) { return std::max(12.0, row_height * static_cast<double>(lane.size())); };
  const Axis axis(0, findings.clock.total(), /*logarithmic=*/false);
  const double cell = findings.clock.total() * std::max(0.5 / box_chart.width, static_cast<double>(rows) / max_boxes);
  double lanes_bottom = box_chart.top;
  for (const Lane& lane : lanes) lanes_bottom += height_of(lane);
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
  double y = box_chart.top;
  for (size_t worker = 0; worker < lanes.size(); ++worker) {
    const Lane& lane = lanes[worker];
    const long share = std::lround(100 * busy_share(lane, static_cast<int>(worker), findings.clock.total()));
    svg.text({box_chart.left - 6, y + height_of(lane) / 2 + 4}, "end", concat(name_of_worker(ledger, worker), ", ", share, " %"));
    const double height = height_of(lane) / static_cast<double>(std::max<size_t>(1, lane.size()));
    for (size_t row = 0; row < lane.size(); ++row) {
      for (const Box& box : boxes_of(lane[row], findings.clock, cell)) {
        const double from = box_chart.left + box_chart.width * axis.place(box.from);
        const double to = box_chart.left + box_chart.width * axis.place(box.to);
        const std::string more = box.trials > 1 ? concat("; and ", box.trials - 1, " more") : "";
        svg.rect({from, y + height * static_cast<double>(row) + 0.5}, std::max(0.5, to - from), std::max(2.0, height - 1), colour_of(box.state),
                 tip_of(*box.first, findings.space) + more);
        ++drawn;
      }
    }
    y += height_of(lane);
  }
  std::string text = "A lane a worker, and the share of time that it was evaluating. Of trials that began more than once, the last time is drawn.";
  if (stretches > ledger.trials.size())
    text += " A trial that paused has a box for each time that it ran, and those that took turns have rows of their own.";
  if (drawn < stretches) {
    text += concat(" Thinned out: ", ledger.trials.size(), " trials are drawn as ", drawn, " boxes, since those within ", duration_text(cell),
                   " are joined, in the colour of the state that is first in the legend.");
  }
  return element("h2", "Workers") + svg.in_page() + note(text);
}

}  // namespace tw::search
