// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <tw/base/random.hpp>
#include <vector>

#include "kernel_axes.hpp"

namespace tw::search {

/// A density over the configurations of a space, including conditional ones: a mixture of one kernel around each of several configurations, and the
/// uniform density. See Tpe for the formula.
class Parzen {
 public:
  using Centres = std::vector<const std::vector<double>*>;

  /// @param axes kept by reference. @param centres coordinates, NaN for parameters that do not exist. @param weights by centre. @param uniform weight
  /// of the uniform density. Only the ratios of weights matter. @param bandwidth factor of Scott's bandwidth
  Parzen(const KernelAxes& axes, const Centres& centres, std::span<const double> weights, double bandwidth, double uniform) : axes_(axes) {
    fit(centres, weights, bandwidth, uniform);
  }
  /// Fits again in the same memory: an allocation takes longer than the computation.
  void fit(const Centres& centres, std::span<const double> weights, double bandwidth, double uniform);

  /// @param x coordinates. @return logarithm of a density in continua, and of a probability in other parameters
  double log_density(const std::vector<double>& x) const;
  /// A sample, as values of the space.
  std::vector<double> sample(CounterRng& random) const;

 private:
  /// Kernels along an axis, by component; the last one is uniform.
  struct Column {
    std::vector<double> centre = {};    // centre in a continuum
    std::vector<double> inverse = {};   // 1 / deviation; 0: uniform
    std::vector<double> constant = {};  // logarithm of the kernel at its centre
    std::vector<uint32_t> number = {};  // index of a value or choice; the number of values: uniform
    std::vector<double> table = {};     // for values: logarithms of probabilities, [value, number]
    double same = 0;                    // for choices: logarithm of the probability of the kernel's own choice
    double other = 0;                   // for choices: logarithm of the probability of each other choice
  };

  void fit_continuum(Column& column, size_t axis, const Centres& centres, double bandwidth) const;
  Column values(size_t axis, const Centres& centres, double bandwidth) const;
  Column choices(size_t axis, const Centres& centres) const;
  double draw(size_t axis, size_t component, CounterRng& random) const;
  double draw_choice(const Column& column, size_t count, size_t number, CounterRng& random) const;

  const KernelAxes& axes_;
  std::vector<double> cumulative_;  // cumulative weights
  std::vector<double> log_weights_;
  std::vector<Column> columns_;
};

/// `bandwidth` s N^(-1 / (D + 4)), where s is the deviation of the N positions; the uniform density counts as one more position.
double scott_deviation(std::span<const double> positions, size_t dimensions, double bandwidth);

}  // namespace tw::search
