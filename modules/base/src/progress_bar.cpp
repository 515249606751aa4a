// SPDX-License-Identifier: Apache-2.0
#include <tw/base/progress_bar.hpp>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <tw/base/number_text.hpp>
#include <utility>

namespace tw {
namespace {
constexpr int bar_width = 28;
constexpr Seconds redraw_interval{0.1};
}  // namespace

std::string format_duration(Seconds duration) {
  if (!std::isfinite(duration.count()) || duration.count() < 0) return "?";
  const auto seconds = static_cast<int64_t>(std::llround(duration.count()));
  const std::string last = ':' + padded_text(seconds % 60, 2);
  if (seconds < 3600) return std::to_string(seconds / 60) + last;
  return std::to_string(seconds / 3600) + ':' + padded_text(seconds / 60 % 60, 2) + last;
}

std::string format_count(double count) {
  const char* suffix = "";
  for (const char* next : {"k", "M", "G"}) {
    if (std::abs(count) < 999.5) break;
    count /= 1000;
    suffix = next;
  }
  const int digits = std::abs(count) >= 99.95 ? 0 : std::abs(count) >= 9.995 ? 1 : 2;
  return fixed_text(count, digits) + suffix;
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
  const std::string percent = fixed_text(100 * share, 0) + '%';
  line += std::string(4 - std::min<size_t>(4, percent.size()), ' ') + percent;
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
  if (done >= progress_.total) return;  // finish() draws the end, once, with the time measured here
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
  line.resize(std::max(width, drawn_width_), ' ');  // erases the rest of a longer line
  drawn_width_ = width;
  out_ << '\r' << line << std::flush;
}

}  // namespace tw
