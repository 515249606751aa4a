// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <tw/base/random.hpp>
#include <vector>

namespace tw::search {

/// sum w s^2 / sum w s. @param weights one for each, not negative. All of either zero: 0
double lehmer_mean(const std::vector<double>& values, const std::vector<double>& weights);

/// round(first + (least - first) done / evaluations), but not below `least`.
size_t reduced_size(size_t first, size_t least, int64_t done, int64_t evaluations);

/// Of differential evolution: the factors and crossover rates that have led to better members, as means of some updates.
/// Ref: Tanabe & Fukunaga 2013, SHADE; 2014, L-SHADE.
class SuccessHistory {
 public:
  struct Entry {
    double factor = 0.5;
    double crossover = 0.5;  ///< negative: 0 for ever
  };

  explicit SuccessHistory(size_t entries) : entries_(entries) {}

  /// From a random entry: factor in (0, 1], crossover in [0, 1].
  Entry draw(CounterRng& random) const;
  /// @param gain of the loss, above 0 and finite
  void succeed(const Entry& drawn, double gain);
  /// The next entry becomes the means of what has succeeded since the last call, if anything has.
  void update();
  const std::vector<Entry>& entries() const noexcept { return entries_; }

 private:
  std::vector<Entry> entries_;
  size_t next_ = 0;
  std::vector<double> factors_;  // successes
  std::vector<double> crossovers_;
  std::vector<double> gains_;
};

}  // namespace tw::search
