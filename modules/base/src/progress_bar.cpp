// SPDX-License-Identifier: Apache-2.0
#include <tw/base/progress_bar.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

namespace tw {
namespace {
constexpr int bar_width = 28;
constexpr Seconds redraw_interval{0.1};

std::string printed(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}
}  // namespace

std::string format_duration(Seconds duration) {
  if (!std::isfinite(duration.count()) || duration.count() < 0) return "?";
  const auto seconds = static_cast<int64_t>(std::llround(duration.count()));
  std::array<char, 64> text{};
  if (seconds < 3600) {
    std::snprintf(text.data(), text.size(), "%d:%02d", static_cast<int>(seconds / 60), static_cast<int>(seconds % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%lld:%02d:%02d", static_cast<long long>(seconds / 3600), static_cast<int>(seconds / 60 % 60),
                  static_cast<int>(seconds % 60));
  }
  return text.data();
}

std::string format_count(double count) {
  const char* suffix = "";
  for (const char* next : {"k", "M", "G"}) {
    if (std::abs(count) < 999.5) break;
    count /= 1000;
    suffix = next;
  }
  const char* format = std::abs(count) >= 99.95 ? "%.0f" : std::abs(count) >= 9.995 ? "%.1f" : "%.2f";
  return printed(format, count) + suffix;
}

std::string render_progress(const Progress& progress, int width) {
  const double share = progress.total > 0 ? std::clamp(static_cast<double>(progress.done) / static_cast<double>(progress.total), 0.0, 1.0) : 1.0;
  const double rate = progress.elapsed.count() > 0 ? static_cast<double>(progress.done) / progress.elapsed.count() : 0.0;
  const double remaining = rate > 0 ? static_cast<double>(progress.total - progress.done) / rate : -1.0;

  std::string line = progress.label + " ";
  if (width > 0) {
    const int filled = static_cast<int>(share * width);
    line += "[" + std::string(static_cast<size_t>(filled), '=') + std::string(static_cast<size_t>(width - filled), ' ') + "] ";
  }
  line += printed("%3.0f%%", 100 * share);
  if (!progress.unit.empty()) line += "  " + format_count(rate) + " " + progress.unit + "/s";
  if (progress.done < progress.total) {
    line += "  " + format_duration(Seconds(remaining)) + " left";
  } else {
    line += "  in " + format_duration(progress.elapsed);
  }
  if (!progress.note.empty()) line += "  " + progress.note;
  return line;
}

ProgressBar::ProgressBar(std::ostream& out, bool terminal, std::string label, std::string unit, int64_t total)
    : out_(out), terminal_(terminal), progress_{.label = std::move(label), .total = total, .unit = std::move(unit), .note = {}} {}

void ProgressBar::update(int64_t done, const std::string& note) {
  progress_.done = done;
  progress_.elapsed = since_start_.elapsed();
  if (done >= progress_.total) return;  // finish() draws the end, once, with the time taken until now
  const int64_t tenths = progress_.total > 0 ? 10 * done / progress_.total : 10;
  const bool due = terminal_ ? progress_.elapsed - last_drawn_ >= redraw_interval : tenths > tenths_drawn_;
  if (!due) return;
  tenths_drawn_ = tenths;
  last_drawn_ = progress_.elapsed;
  progress_.note = note;
  draw();
}

void ProgressBar::finish(const std::string& note) {
  progress_.note = note;
  draw();
  if (terminal_) out_ << std::endl;
}

void ProgressBar::draw() {
  std::string line = render_progress(progress_, terminal_ ? bar_width : 0);
  if (!terminal_) {
    out_ << line << std::endl;
    return;
  }
  const size_t width = line.size();
  line.resize(std::max(width, drawn_width_), ' ');  // wipe what a longer line left behind
  drawn_width_ = width;
  out_ << '\r' << line << std::flush;
}

}  // namespace tw
