// SPDX-License-Identifier: Apache-2.0
#include "noise_watch.hpp"

#include <cmath>
#include <utility>

namespace tw::search {
namespace {

constexpr int in_a_row = 2;
constexpr double of_the_error = 0.01;    // for normal noise of deviation s, one pair in 200 differs by less than s / 100
constexpr double of_the_spread = 1e-6;   // because losses have 16 digits
constexpr double still_possible = 1e-6;  // as a share of an error that was not noise: noise this small may remain undetected

}  // namespace

void NoiseWatch::refuted(double error) noexcept {
  ++refuted_;
  if (refuted_ < in_a_row || !std::isfinite(error) || !(error < suspect_below_)) return;
  suspect_below_ = 0;  // until the answer is known
  error_ = error;
  asking_ = true;
}

bool NoiseWatch::asks_for_a_twin() noexcept { return std::exchange(asking_, false); }

void NoiseWatch::compare(double difference, double spread) noexcept {
  if (std::abs(difference) > of_the_error * error_ && std::abs(difference) > of_the_spread * spread) found_ = true;
  suspect_below_ = still_possible * error_;
}

}  // namespace tw::search
