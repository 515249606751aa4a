// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>

namespace tw::search {

/// Whether losses have noise, by as few evaluations as can be: a second one, right beside a trial, where a model has been refuted twice in a row and
/// noise may be why. Losses that differ there have noise, as large as what was wrong; those that do not have none, or far less.
class NoiseWatch {
 public:
  /// What a model foretold has become true.
  void confirmed() noexcept { refuted_ = 0; }
  /// It has not. @param error of the loss that was foretold; not finite: it counts for nothing
  void refuted(double error) noexcept;
  /// Whether a trial is to be evaluated again. One answer is true for each question.
  bool asks_for_a_twin() noexcept;
  /// @param difference of the losses of two trials at one place. @param spread of all losses: what is less than 1e-6 of it is rounding
  void compare(double difference, double spread) noexcept;
  bool found() const noexcept { return found_; }

 private:
  int refuted_ = 0;                                                 // in a row
  double suspect_below_ = std::numeric_limits<double>::infinity();  // errors as large as this were not noise's
  double error_ = 0;                                                // the question
  bool asking_ = false;
  bool found_ = false;
};

}  // namespace tw::search
