// SPDX-License-Identifier: Apache-2.0
#include "memory_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/base/number_text.hpp>
#include <tw/report/svg.hpp>

namespace tw::tool {
namespace {

using report::Point;
using train::StepMemory;

// In pixels.
constexpr double width = 760;
constexpr double left = 70;
constexpr double top = 78;
constexpr double plot_width = width - left - 170;
constexpr double plot_height = 260;

// Colours that the colour-blind can tell apart. Ref: Okabe & Ito 2008. By use.
constexpr std::array<const char*, memory_uses> colours{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e6c35c"};

std::string mib(int64_t bytes) { return fixed_text(static_cast<double>(bytes) / (1 << 20), 1); }

/// 1, 2 or 5 times a power of ten, so that about four of them reach `high`.
double tick_of(double high) {
  const double power = std::pow(10, std::floor(std::log10(high / 4)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (high / (times * power) <= 5) return times * power;
  }
  return 10 * power;
}

/// The multiples of tick_of(high) from 0 to `high`.
std::vector<double> ticks_up_to(double high) {
  const double tick = tick_of(high);
  std::vector<double> ticks;
  for (int i = 0; i * tick <= high; ++i) ticks.push_back(i * tick);
  return ticks;
}

class Drawing {
 public:
  explicit Drawing(const StepMemory& step)
      : step_(step),
        worst_(*std::ranges::max_element(step.moments, {}, [](const StepMemory::Moment& moment) { return moment.held.together(); })),
        seconds_(std::max(step.moments.back().seconds, 1e-9)),
        bytes_(static_cast<double>(std::max<int64_t>(worst_.held.together(), 1))) {}

  std::string draw() {
    svg_.text({left, 24}, "start",
              concat("memory of rank ", step_.rank, " in step ", step_.step + 1, ": at most ", mib(worst_.held.together()), " MiB"),
              {{"font-size", "15"}, {"font-weight", "bold"}});
    draw_axes();
    for (size_t use = 0; use < memory_uses; ++use) draw_use(use);
    draw_phases();
    return svg_.file();
  }

 private:
  double x_of(double seconds) const { return left + plot_width * seconds / seconds_; }
  double y_of(double bytes) const { return top + plot_height * (1 - bytes / bytes_); }

  void draw_axes() {
    for (const double tick : ticks_up_to(bytes_ / (1 << 20))) {
      const double y = y_of(tick * (1 << 20));
      svg_.line({left - 4, y}, {left + plot_width, y}, "#e4e4e4");
      svg_.text({left - 8, y + 4}, "end", brief_text(tick, 6));
    }
    svg_.text({left - 8, top - 12}, "end", "MiB");
    for (const double tick : ticks_up_to(1000 * seconds_)) {
      svg_.text({x_of(tick / 1000), top + plot_height + 18}, "middle", brief_text(tick, 6));
    }
    svg_.text({left + plot_width, top + plot_height + 36}, "end", "ms since the step began");
  }

  // Draws the band of a use, above those of earlier uses, and its name in the legend.
  void draw_use(size_t use) {
    std::vector<Point> above;
    std::vector<Point> below;
    for (size_t i = 0; i < step_.moments.size(); ++i) {
      const auto& [seconds, during, held] = step_.moments[i];
      const double until = i + 1 < step_.moments.size() ? step_.moments[i + 1].seconds : seconds_;
      int64_t under = 0;
      for (size_t other = 0; other < use; ++other) under += held.bytes[other];
      for (const double at : {seconds, until}) {
        below.push_back({x_of(at), y_of(static_cast<double>(under))});
        above.push_back({x_of(at), y_of(static_cast<double>(under + held.bytes[use]))});
      }
    }
    above.insert(above.end(), below.rbegin(), below.rend());
    const std::string name = name_of(static_cast<MemoryUse>(use));
    svg_.area(above, colours[use], name);
    const double y = top + 20 * static_cast<double>(memory_uses - 1 - use);
    svg_.rect({left + plot_width + 20, y}, 12, 12, colours[use]);
    svg_.text({left + plot_width + 38, y + 10}, "start", concat(name, ' ', mib(worst_.held.bytes[use])));
  }

  // Marks where each phase begins. A name that would cover the one before it, after a short phase, is left out.
  void draw_phases() {
    double free_from = 0;
    for (size_t i = 0; i < step_.moments.size(); ++i) {
      const auto& [seconds, during, held] = step_.moments[i];
      if (i > 0 && during == step_.moments[i - 1].during) continue;
      const double x = x_of(seconds);
      svg_.line({x, top - 18}, {x, top + plot_height}, "#888", {{"stroke-dasharray", "3 3"}});
      if (x < free_from) continue;
      svg_.text({x + 4, top - 8}, "start", during);
      free_from = x + 8 + 7 * static_cast<double>(during.size());
    }
  }

  const StepMemory& step_;
  const StepMemory::Moment& worst_;
  double seconds_;
  double bytes_;
  report::Svg svg_{width, top + plot_height + 50};
};

}  // namespace

std::string memory_svg(const train::StepMemory& step) {
  TW_EXPECTS(!step.moments.empty(), "a chart needs at least one moment");
  return Drawing(step).draw();
}

}  // namespace tw::tool
