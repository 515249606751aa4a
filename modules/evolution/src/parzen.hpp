// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <tw/base/random.hpp>
#include <vector>

#include "kernel_axes.hpp"

namespace tw::search {

/// A density over the configurations of a space, conditional ones included: a mixture of kernels, one around each of some configurations, and the
/// uniform density. See Tpe for the formula.
class Parzen {
 public:
  using Centres = std::vector<const std::vector<double>*>;

  /// @param axes borrowed. @param centres coordinates, NaN for what does not exist. @param weights one for each. @param uniform the uniform
  /// density's. Only their ratios count. @param bandwidth that many of Scott's
  Parzen(const KernelAxes& axes, const Centres& centres, std::span<const double> weights, double bandwidth, double uniform) : axes_(axes) {
    fit(centres, weights, bandwidth, uniform);
  }
  /// Anew, in the memory that it has: to get some and give it back takes longer than what is written there.
  void fit(const Centres& centres, std::span<const double> weights, double bandwidth, double uniform);

  /// @param x coordinates. @return of a density in the scales of continua, of a probability in other parameters
  double log_density(const std::vector<double>& x) const;
  /// Values of the space.
  std::vector<double> sample(CounterRng& random) const;

 private:
  /// What kernels are along an axis, by component, of which the uniform one is the last.
  struct Column {
    std::vector<double> centre = {};    // of a continuum
    std::vector<double> inverse = {};   // 1 / deviation; 0: uniform
    std::vector<double> constant = {};  // logarithm of the kernel in its middle
    std::vector<uint32_t> number = {};  // of a value or choice; as many as there are: uniform
    std::vector<double> table = {};     // of values: [value, number], logarithms of probabilities
    double same = 0;                    // of choices, likewise: of the one that a kernel is on
    double other = 0;                   // and of each other one
  };

  void fit_continuum(Column& column, size_t axis, const Centres& centres, double bandwidth) const;
  Column values(size_t axis, const Centres& centres, double bandwidth) const;
  Column choices(size_t axis, const Centres& centres) const;
  double draw(size_t axis, size_t component, CounterRng& random) const;
  double draw_choice(const Column& column, size_t count, size_t number, CounterRng& random) const;

  const KernelAxes& axes_;
  std::vector<double> cumulative_;  // weights, summed up
  std::vector<double> log_weights_;
  std::vector<Column> columns_;
};

/// `bandwidth` s N^(-1 / (D + 4)), s being the deviation of the N positions and the uniform density as one more.
double scott_deviation(std::span<const double> positions, size_t dimensions, double bandwidth);

}  // namespace tw::search
