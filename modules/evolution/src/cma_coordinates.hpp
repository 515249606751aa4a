// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// The meaning of each coordinate of CMA-ES: a continuum, whose bounds are handled by into_box(), or one of several values. A value is selected by
/// the coordinate's share of [0, 1], or as the largest coordinate of its parameter.
class CmaCoordinates {
 public:
  explicit CmaCoordinates(const Space& space);

  size_t size() const noexcept { return owner_.size(); }
  std::vector<double> values_of(const Eigen::VectorXd& z) const;
  /// The inverse of values_of().
  void position_of(const std::vector<double>& values, Eigen::Ref<Eigen::VectorXd> z) const;
  /// Uniform in [0.1, 0.9]; no choice of a categorical parameter is preferred.
  Eigen::VectorXd random_start(CounterRng& random) const;

  /// Limits the mean so that every value stays reachable and no two means are equivalent by symmetry: to the box and its margins, or to the range
  /// between the middles of the outermost values' shares.
  void keep_within(Eigen::VectorXd& mean) const;

  /// Deviations below which a mean would stay on one value for ever. With these, another value of a coordinate is sampled with probability at least
  /// alpha; 0 for a continuum. @param alpha below 0.5. Ref: the margin of Hamano et al. 2022, arXiv 2205.13482, here by deviation alone.
  void least_deviations(const Eigen::VectorXd& mean, double alpha, Eigen::VectorXd& least) const;
  bool has_margin() const noexcept { return has_margin_; }

 private:
  struct Share {
    double low;
    double high;
  };
  bool is_continuum(size_t parameter) const;
  /// The share that contains u, for a numeric parameter with several values.
  Share share_at(size_t parameter, double u) const;

  Space space_;
  std::vector<size_t> owner_;   // parameter of each coordinate
  std::vector<Share> middles_;  // by coordinate: middles of the outermost shares
  bool has_margin_ = false;
};

}  // namespace tw::search
