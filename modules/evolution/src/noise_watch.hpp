// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>

namespace tw::search {

/// Detects noise in losses with few extra evaluations. It requests a second trial very close to another one, when a model was refuted twice in a row
/// and noise may be the reason. If their losses differ by about the model's error, there is noise. If they are equal, or nearly so, there is none.
class NoiseWatch {
 public:
  /// A prediction of a model was right.
  void confirmed() noexcept { refuted_ = 0; }
  /// A prediction was wrong. @param error of the predicted loss; ignored unless finite
  void refuted(double error) noexcept;
  /// Whether a trial must be evaluated again. Returns true once per request.
  bool asks_for_a_twin() noexcept;
  /// @param difference of the losses of two trials at one position. @param spread of all losses: differences below 1e-6 of it are rounding errors
  void compare(double difference, double spread) noexcept;
  bool found() const noexcept { return found_; }

 private:
  int refuted_ = 0;                                                 // in a row
  double suspect_below_ = std::numeric_limits<double>::infinity();  // errors of this size or more were not noise
  double error_ = 0;                                                // error that triggered the request
  bool asking_ = false;
  bool found_ = false;
};

}  // namespace tw::search
