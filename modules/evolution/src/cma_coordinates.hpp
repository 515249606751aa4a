// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// What each coordinate of CMA-ES stands for: a continuum, whose bounds are handled by into_box(); or one of several values, chosen by the
/// coordinate's share of [0, 1], or as the largest coordinate of its parameter.
class CmaCoordinates {
 public:
  explicit CmaCoordinates(const Space& space);

  size_t size() const noexcept { return owner_.size(); }
  std::vector<double> values_of(const Eigen::VectorXd& z) const;
  /// The other way.
  void position_of(const std::vector<double>& values, Eigen::Ref<Eigen::VectorXd> z) const;
  /// Uniform in 0.1 to 0.9; no choice of a categorical parameter is preferred.
  Eigen::VectorXd random_start(CounterRng& random) const;

  /// Where no value is out of reach, and no two means are the same by symmetry: within the box and its margins, or between the middles of the
  /// outermost values' shares.
  void keep_within(Eigen::VectorXd& mean) const;

  /// The deviations below which a mean would stay on one value for ever: with these, another value of a coordinate comes up with probability alpha at
  /// least; 0 for a continuum. @param alpha below 0.5. Ref: the margin of Hamano et al. 2022, arXiv 2205.13482, here by deviation alone.
  void least_deviations(const Eigen::VectorXd& mean, double alpha, Eigen::VectorXd& least) const;
  bool has_margin() const noexcept { return has_margin_; }

 private:
  struct Share {
    double low;
    double high;
  };
  bool is_continuum(size_t parameter) const;
  /// That holds u, of a numeric parameter with several values.
  Share share_at(size_t parameter, double u) const;

  const Space* space_;
  std::vector<size_t> owner_;   // parameter, by coordinate
  std::vector<Share> middles_;  // by coordinate: of the outermost shares
  bool has_margin_ = false;
};

}  // namespace tw::search
