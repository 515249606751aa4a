// SPDX-License-Identifier: Apache-2.0
#include "progress_line.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <tw/base/concat.hpp>
#include <tw/base/terminal.hpp>

namespace tw::search {
namespace {
constexpr double status_every_s = 0.25;
int64_t milliseconds(double seconds) { return static_cast<int64_t>(1e3 * std::min(seconds, 1e12)); }
}  // namespace

ProgressLine::ProgressLine(const Place& place, Post& post) : place_(place), post_(post), statuses_(static_cast<size_t>(place.layout.workers())) {}

void ProgressLine::begin(int64_t past) {
  since_begin_ = Stopwatch();
  if (!place_.options.progress || place_.worker != 0) return;
  const bool counts = place_.options.evaluations > 0;  // otherwise the line shows the time
  const int64_t total = counts ? std::max<int64_t>(0, place_.options.evaluations - past) : milliseconds(place_.options.seconds);
  bar_.emplace(std::cout, output_is_terminal(), "search", counts ? "evaluations" : "", total);
}

void ProgressLine::update(const StatusMessage& mine) {
  if (!place_.options.progress || since_status_.elapsed().count() < status_every_s) return;
  since_status_ = Stopwatch();
  tell(mine);
  if (bar_) draw();
}

void ProgressLine::tell(const StatusMessage& mine) {
  if (!place_.options.progress) return;
  if (place_.worker == 0) {
    statuses_[0] = mine;
  } else {
    post_.send(mine, 0);
  }
}

void ProgressLine::finish() {
  if (bar_) bar_->finish(draw());
}

/// @return the note at the end of the line
std::string ProgressLine::draw() {
  StatusMessage all;
  for (const StatusMessage& each : statuses_) {
    all.evaluations += each.evaluations;
    all.busy_s += each.busy_s;
    all.best = std::min(all.best, each.best);
  }
  const SearchOptions& options = place_.options;
  const double seconds = since_begin_.elapsed().count();
  std::string note = concat("busy ", std::lround(100 * all.busy_s / (seconds * place_.layout.workers())), " %");
  if (std::isfinite(all.best)) note = concat("best ", all.best, ", ", note);
  if (options.evaluations == 0) note = concat(all.evaluations, " evaluations, ", note);
  bar_->update(options.evaluations > 0 ? all.evaluations : milliseconds(std::min(seconds, options.seconds)), note);
  return note;
}

}  // namespace tw::search
