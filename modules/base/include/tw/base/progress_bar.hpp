// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <tw/base/clock.hpp>

namespace tw {

/// The content of a progress display.
struct Progress {
  std::string label;  ///< such as "epoch 1/2"
  int64_t done = 0;   ///< number of finished units
  int64_t total = 0;  ///< number of units
  Seconds elapsed{0};
  std::string unit;  ///< such as "images"; the rate is in units per second; empty: no rate
  std::string note;  ///< free text after the rate, such as "loss 0.412"
};

/// One line for `progress`: label, bar, percentage, rate, remaining time (at the end: elapsed time), note; without a line break.
/// @param bar_width characters between the brackets; 0 omits the bar.
std::string render_progress(const Progress& progress, int bar_width);

/// Shows progress on a stream. On a terminal it redraws one line, at most ten times a second. Elsewhere it prints a line without a bar at every
/// tenth of the total.
class ProgressBar {
 public:
  /// @param out borrowed.
  ProgressBar(std::ostream& out, bool terminal, std::string label, std::string unit, int64_t total);

  /// Reports that `done` units are finished. Cheap when nothing is drawn.
  void update(int64_t done, const std::string& note = "");
  /// Draws the state of the last update(), with `note`, and ends the line.
  void finish(const std::string& note = "");

 private:
  void draw();

  std::ostream& out_;
  bool terminal_;
  Progress progress_;
  Stopwatch since_start_;
  Seconds last_drawn_{-1};
  int64_t tenths_drawn_ = 0;
  size_t drawn_width_ = 0;
};

/// "0:07", "12:34", "1:02:03"; "?" if negative or not finite.
std::string format_duration(Seconds duration);

/// "987", "12.3k", "4.56M": three significant digits.
std::string format_count(double count);

}  // namespace tw
