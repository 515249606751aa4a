// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/report_svg.hpp>

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/number_text.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/report/svg.hpp>

namespace tw::layer_parallel {
namespace {

using report::Point;
using report::Svg;

// In pixels.
constexpr double page_width = 760;
constexpr double left = 150;
constexpr double plot_width = page_width - left - 30;
constexpr double plot_height = 170;
constexpr double bar_height = 16;
constexpr double gap = 62;  // between parts, for titles and labels

// Colours that colour-blind readers can tell apart. Ref: Okabe & Ito 2008.
constexpr std::array colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
const char* colour(size_t i) { return colours[i % colours.size()]; }

constexpr const char* pale = "#dddddd";

/// Numbers that differ between ranks.
std::vector<double> own_figures(const Report& report) {
  std::vector<double> figures{report.last_relaxation.count(), report.waited.count()};
  for (const auto& level : report.seconds) {
    for (const Seconds& seconds : level) figures.push_back(seconds.count());
  }
  return figures;
}

const double* take_figures(const double* from, Report& report) {
  report.last_relaxation = Seconds(*from++);
  report.waited = Seconds(*from++);
  for (auto& level : report.seconds) {
    for (Seconds& seconds : level) seconds = Seconds(*from++);
  }
  return from;
}

/// A logarithmic axis for positive values, from one power of ten to another.
class LogAxis {
 public:
  explicit LogAxis(const std::vector<double>& values) {
    double low = HUGE_VAL;
    double high = 0;
    for (const double value : values) {
      if (!(value > 0) || !std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (high == 0) low = high = 1;
    low_ = std::floor(std::log10(low));
    high_ = std::max(std::ceil(std::log10(high)), low_ + 1);
  }
  double place(double value, double top) const {
    const double share = std::isfinite(value) && value > 0 ? (std::log10(value) - low_) / (high_ - low_) : value > 0 ? 1 : 0;
    return top + plot_height * (1 - std::clamp(share, 0.0, 1.0));
  }
  void draw(Svg& svg, double top) const {
    const double step = std::max(1.0, std::ceil((high_ - low_) / 6));
    for (int i = 0; low_ + i * step <= high_; ++i) {
      const double power = low_ + i * step;
      const double y = place(std::pow(10, power), top);
      svg.line({left, y}, {left + plot_width, y}, pale);
      svg.text({left - 8, y + 4}, "end", concat("1e", static_cast<int>(power)));
    }
  }

 private:
  double low_ = 0;  // exponents of ten
  double high_ = 1;
};

struct Direction {
  std::string name;
  const Report* report;
};

std::vector<Direction> directions_of(const NetworkReport& report) {
  std::vector<Direction> directions;
  for (const auto& block : report.blocks) {
    directions.push_back({block.name + " forward", &block.forward});
    directions.push_back({block.name + " backward", &block.backward});
  }
  return directions;
}

double draw_residuals(Svg& svg, const NetworkReport& report, double top) {
  std::vector<double> values;
  size_t iterations = 1;
  for (const auto& [name, of] : directions_of(report)) {
    iterations = std::max(iterations, of->residuals.size());
    for (const auto& residual : of->residuals) values.push_back(residual.value_or(0));
  }
  const LogAxis axis(values);
  svg.text({left, top - 10}, "start", "residual after each iteration", {{"font-weight", "bold"}});
  axis.draw(svg, top);
  const auto x_of = [&](size_t i) { return left + plot_width * (static_cast<double>(i) + 0.5) / static_cast<double>(iterations); };
  for (size_t i = 0; i < iterations; ++i) svg.text({x_of(i), top + plot_height + 16}, "middle", concat(i + 1));
  const auto directions = directions_of(report);
  for (size_t d = 0; d < directions.size(); ++d) {
    std::vector<Point> points;
    const auto& residuals = directions[d].report->residuals;
    for (size_t i = 0; i < residuals.size(); ++i) {
      if (!residuals[i]) continue;
      points.push_back({x_of(i), axis.place(*residuals[i], top)});
      svg.circle(points.back(), 3, colour(d), concat(directions[d].name, ", iteration ", i + 1, ": ", *residuals[i]));
    }
    if (points.size() > 1) svg.polyline(points, colour(d), directions[d].name);
    if (points.empty()) continue;
    svg.rect({8, top + 18 * static_cast<double>(d)}, 10, 10, colour(d));
    svg.text({22, top + 18 * static_cast<double>(d) + 9}, "start", directions[d].name);
  }
  return top + plot_height + gap;
}

/// Times of one rank in one direction, over all blocks.
struct RankTime {
  std::vector<double> of_levels;
  std::vector<std::string> phases;  // by level, for tooltips
  double last_relaxation = 0;
  double waited = 0;

  double sum() const {
    double all = last_relaxation;
    for (const double level : of_levels) all += level;
    return all;
  }
};

RankTime time_of(const NetworkReport& report, bool forward) {
  RankTime time;
  for (const auto& block : report.blocks) {
    const Report& of = forward ? block.forward : block.backward;
    const size_t levels = std::max(time.of_levels.size(), of.seconds.size());
    time.of_levels.resize(levels);
    time.phases.resize(levels);
    for (size_t level = 0; level < of.seconds.size(); ++level) {
      for (size_t kind = 0; kind < of.seconds[level].size(); ++kind) {
        const double seconds = of.seconds[level][kind].count();
        if (seconds == 0) continue;
        time.of_levels[level] += seconds;
        time.phases[level] += concat(' ', name_of(static_cast<Phase::Kind>(kind)), ' ', fixed_text(1e3 * seconds, 2), " ms");
      }
    }
    time.last_relaxation += of.last_relaxation.count();
    time.waited += of.waited.count();
  }
  return time;
}

double draw_times(Svg& svg, const std::vector<NetworkReport>& by_rank, double top) {
  double longest = 1e-9;
  size_t levels = 0;
  for (const NetworkReport& report : by_rank) {
    for (const bool forward : {true, false}) {
      longest = std::max(longest, time_of(report, forward).sum());
      levels = std::max(levels, time_of(report, forward).of_levels.size());
    }
  }
  svg.text({left, top - 26}, "start", concat("time by rank; the longest bar is ", fixed_text(1e3 * longest, 2), " ms"), {{"font-weight", "bold"}});
  double x = left;
  const auto legend = [&](const char* fill, const std::string& words) {
    svg.rect({x, top - 18}, 10, 10, fill);
    svg.text({x + 14, top - 9}, "start", words);
    x += 30 + 7 * static_cast<double>(words.size());
  };
  for (size_t level = 0; level < levels; ++level) legend(colour(level), concat("level ", level));
  legend("#999999", "last relaxation");
  legend("#000000", "waiting, included in these");
  double y = top;
  for (const bool forward : {true, false}) {
    for (size_t rank = 0; rank < by_rank.size(); ++rank) {
      const RankTime time = time_of(by_rank[rank], forward);
      const auto length = [&](double seconds) { return plot_width * seconds / longest; };
      svg.text({left - 8, y + 12}, "end", concat(forward ? "forward" : "backward", ", rank ", rank));
      double begin = left;
      for (size_t level = 0; level < time.of_levels.size(); ++level) {
        svg.rect({begin, y}, length(time.of_levels[level]), bar_height, colour(level), concat("level ", level, ':', time.phases[level]));
        begin += length(time.of_levels[level]);
      }
      svg.rect({begin, y}, length(time.last_relaxation), bar_height, "#999999",
               concat("last relaxation ", fixed_text(1e3 * time.last_relaxation, 2), " ms"));
      svg.rect({left, y + bar_height}, length(time.waited), 4, "#000000", concat("waited ", fixed_text(1e3 * time.waited, 2), " ms"));
      y += bar_height + 10;
    }
    y += 8;
  }
  return y + gap - 20;
}

double draw_history(Svg& svg, const std::vector<Detection>& history, double bound, double top) {
  std::vector<double> values{bound};
  for (const Detection& each : history) values.push_back(each.factor);
  const LogAxis axis(values);
  const auto most = static_cast<double>(std::max<int64_t>(history.back().pass, 1));
  svg.text({left, top - 10}, "start", concat("convergence factor at each check by the detector; bound ", bound), {{"font-weight", "bold"}});
  axis.draw(svg, top);
  svg.line({left, axis.place(bound, top)}, {left + plot_width, axis.place(bound, top)}, "#d55e00", {{"stroke-dasharray", "5 3"}});
  for (const Detection& each : history) {
    const double x = left + plot_width * static_cast<double>(each.pass) / most;
    svg.circle({x, axis.place(each.factor, top)}, each.fired ? 5 : 3, each.fired ? "#d55e00" : "#0072b2",
               concat("pass ", each.pass, ": factor ", each.factor, ", ", each.where, each.fired ? "; fired" : ""));
  }
  svg.text({left, top + plot_height + 16}, "middle", "0");
  svg.text({left + plot_width, top + plot_height + 16}, "end", concat("pass ", history.back().pass));
  return top + plot_height + gap;
}

}  // namespace

std::vector<NetworkReport> reports_of_all_ranks(const Communicator& comm, const NetworkReport& mine) {
  std::vector<double> figures{mine.forward.count(), mine.backward.count()};
  for (const auto& [name, of] : directions_of(mine)) {
    const std::vector<double> more = own_figures(*of);
    figures.insert(figures.end(), more.begin(), more.end());
  }
  std::vector<NetworkReport> reports;
  for (const at::Tensor& of_rank : allgather_variable(comm, at::tensor(figures, at::kDouble))) {
    NetworkReport& report = reports.emplace_back(mine);
    const double* from = of_rank.const_data_ptr<double>();
    report.forward = Seconds(*from++);
    report.backward = Seconds(*from++);
    for (auto& block : report.blocks) from = take_figures(take_figures(from, block.forward), block.backward);
  }
  return reports;
}

std::string report_svg(const std::vector<NetworkReport>& by_rank, const std::vector<Detection>& history, double bound) {
  TW_EXPECTS(!by_rank.empty(), "report_svg() needs the report of at least one rank");
  const auto draw = [&](double height, double& end) {
    Svg svg(page_width, height);
    end = draw_residuals(svg, by_rank.front(), 40);
    end = draw_times(svg, by_rank, end);
    if (!history.empty()) end = draw_history(svg, history, bound, end);
    return svg.file();
  };
  double end = 0;
  (void)draw(0, end);  // a dry run, for the height
  return draw(end - gap / 2, end);
}

}  // namespace tw::layer_parallel
