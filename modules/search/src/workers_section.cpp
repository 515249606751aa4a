// SPDX-License-Identifier: Apache-2.0
// A timeline for each worker, with its trials over time.
#include <algorithm>
#include <array>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/number_text.hpp>

#include "axis.hpp"
#include "report_sections.hpp"
#include "timelines.hpp"

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
// In a cell, earlier states hide later ones.
constexpr std::array order{TrialState::failed, TrialState::infeasible, TrialState::running, TrialState::pruned, TrialState::complete};

bool hides(TrialState a, TrialState b) { return std::ranges::find(order, a) < std::ranges::find(order, b); }

/// Trials of a row that are drawn as one box.
struct Box {
  double from;
  double to;
  TrialState state;
  const LedgerEntry* first;
  int64_t trials = 1;
};

/// @param spans spans of a row, in the order of time. @param cell seconds; a span that ends within this time after the begin of a box is joined to it
std::vector<Box> boxes_of(const std::vector<TimeSpan>& spans, const UnbrokenClock& clock, double cell) {
  std::vector<Box> boxes;
  for (const TimeSpan& span : spans) {
    const TrialState state = span.entry->individual.state;
    const Box box{.from = clock.at(span.from), .to = clock.at(span.to), .state = state, .first = span.entry};
    if (boxes.empty() || box.to - boxes.back().from > cell) {
      boxes.push_back(box);
      continue;
    }
    Box& last = boxes.back();
    last.to = std::max(last.to, box.to);
    last.trials += span.is_first ? 1 : 0;
    if (hides(state, last.state)) last.state = state;
  }
  return boxes;
}

/// "worker 3", "worker 3 (2 ranks)"
std::string name_of_worker(const Ledger& ledger, size_t worker) {
  const int ranks = worker < ledger.worker_ranks.size() ? ledger.worker_ranks[worker] : 1;
  return ranks == 1 ? concat("worker ", worker) : concat("worker ", worker, " (", ranks, " ranks)");
}

/// The seconds in which a worker was evaluating. For an ended trial of this worker, the first span counts for all of its spans.
double busy_s(const TimeSpan& span, int worker) {
  if (span.entry->worker != worker) return span.to - span.from;
  return span.is_first && span.entry->has_ended() ? span.entry->individual.seconds : 0;
}

/// The share of the time of a search in which a worker was evaluating.
double busy_share(const Timeline& timeline, int worker, double total) {
  double busy = 0;
  for (const auto& row : timeline) {
    for (const TimeSpan& span : row) busy += busy_s(span, worker);
  }
  return total > 0 ? std::min(1.0, busy / total) : 0;
}

}  // namespace

std::string workers_section(const Findings& findings) {
  const Ledger& ledger = findings.ledger;
  if (ledger.trials.empty()) return "";
  const std::vector<Timeline> timelines = timelines_of(ledger);
  size_t rows = 0;
  size_t spans = 0;
  for (const Timeline& timeline : timelines) {
    rows += std::max<size_t>(1, timeline.size());
    for (const auto& row : timeline) spans += row.size();
  }
  const double row_height = std::clamp(600.0 / static_cast<double>(rows), 3.0, 24.0);
  const auto height_of = [&](const Timeline& timeline) { return std::max(12.0, row_height * static_cast<double>(timeline.size())); };
  const Axis axis(0, findings.clock.total(), /*logarithmic=*/false);
  const double cell = findings.clock.total() * std::max(0.5 / box_chart.width, static_cast<double>(rows) / max_boxes);
  double timelines_bottom = box_chart.top;
  for (const Timeline& timeline : timelines) timelines_bottom += height_of(timeline);
  Svg svg(box_chart.left + box_chart.width + box_chart.right, timelines_bottom + box_chart.bottom);
  double legend = box_chart.left;
  for (const TrialState state : order) {
    svg.rect({legend, 6}, 10, 10, colour_of(state));
    svg.text({legend + 14, 15}, "start", state_text(state));
    legend += 90;
  }
  for (const double tick : axis.ticks()) {
    const double x = box_chart.left + box_chart.width * axis.place(tick);
    svg.line({x, box_chart.top}, {x, timelines_bottom}, "#e4e4e4");
    svg.text({x, timelines_bottom + 16}, "middle", brief_text(tick));
  }
  svg.text({box_chart.left + box_chart.width / 2, timelines_bottom + 36}, "middle", "seconds");
  size_t drawn = 0;
  double y = box_chart.top;
  for (size_t worker = 0; worker < timelines.size(); ++worker) {
    const Timeline& timeline = timelines[worker];
    const long share = std::lround(100 * busy_share(timeline, static_cast<int>(worker), findings.clock.total()));
    svg.text({box_chart.left - 6, y + height_of(timeline) / 2 + 4}, "end", concat(name_of_worker(ledger, worker), ", ", share, " %"));
    const double height = height_of(timeline) / static_cast<double>(std::max<size_t>(1, timeline.size()));
    for (size_t row = 0; row < timeline.size(); ++row) {
      for (const Box& box : boxes_of(timeline[row], findings.clock, cell)) {
        const double from = box_chart.left + box_chart.width * axis.place(box.from);
        const double to = box_chart.left + box_chart.width * axis.place(box.to);
        const std::string more = box.trials > 1 ? concat("; and ", box.trials - 1, " more") : "";
        svg.rect({from, y + height * static_cast<double>(row) + 0.5}, std::max(0.5, to - from), std::max(2.0, height - 1), colour_of(box.state),
                 tip_of(*box.first, findings.space) + more);
        ++drawn;
      }
    }
    y += height_of(timeline);
  }
  std::string text =
      "Each worker has a timeline, with the share of time that it was evaluating. Of trials that began more than once, the last attempt is drawn.";
  if (spans > ledger.trials.size())
    text += " A trial that paused has a box for each period in which it ran. Trials that took turns on a worker are drawn in separate rows.";
  if (drawn < spans) {
    text += concat(" Thinned out: ", ledger.trials.size(), " trials are drawn as ", drawn, " boxes, since trials within ", duration_text(cell),
                   " are joined. A joined box has the colour of the state that comes first in the legend.");
  }
  return element("h2", "Workers") + svg.in_page() + note(text);
}

}  // namespace tw::search
