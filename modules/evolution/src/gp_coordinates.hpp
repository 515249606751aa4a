// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// A space's positions as a model of losses sees them: which coordinates are smooth and have gradients, which share a length, and which positions are
/// near.
class GpCoordinates {
 public:
  explicit GpCoordinates(const Space& space);

  Eigen::Index size() const noexcept { return static_cast<Eigen::Index>(group_.size()); }
  /// Parameter of each coordinate.
  const std::vector<Eigen::Index>& group() const noexcept { return group_; }
  Eigen::Index groups() const noexcept { return static_cast<Eigen::Index>(space_.size()); }
  /// Whether the coordinate is on a scale: real, or with at least eight values. Other coordinates are choices.
  bool is_smooth(Eigen::Index coordinate) const { return smooth_[static_cast<size_t>(group_[static_cast<size_t>(coordinate)])]; }

  Eigen::VectorXd position_of(const std::vector<double>& values) const;
  std::vector<double> values_of(const Eigen::VectorXd& position) const;
  /// The position of the nearest values.
  Eigen::VectorXd snapped(const Eigen::VectorXd& position) const { return position_of(values_of(position)); }

  /// Whether there are categorical parameters.
  bool has_branches() const noexcept { return !choices_.empty(); }
  /// The choices of all categorical parameters.
  Eigen::VectorXd branch(const Eigen::VectorXd& position) const { return position(choices_); }
  /// 1 for smooth coordinates that exist at this position, 0 for others.
  Eigen::VectorXd movable(const Eigen::VectorXd& position) const;
  /// 1 for smooth coordinates that always exist and may therefore be mixed, 0 for others.
  const Eigen::VectorXd& mixable() const noexcept { return mixable_; }

  Eigen::VectorXd random(CounterRng& random) const;
  /// Shifts the smooth coordinates of `centre`, clamped to the cube. Other parameters are redrawn with probability `share`, at most 0.3, and always
  /// if they do not exist at the centre.
  Eigen::VectorXd random_near(const Eigen::VectorXd& centre, const Eigen::VectorXd& shift, double share, CounterRng& random) const;
  /// All positions with one choice exchanged: at most seven per parameter that is not smooth.
  std::vector<Eigen::VectorXd> exchanges(const Eigen::VectorXd& position) const;
  /// The largest absolute value among the smooth coordinates of a difference.
  double length(const Eigen::VectorXd& difference) const;
  /// Whether the positions differ by less than `width` in smooth coordinates, and are equal in all others.
  bool are_near(const Eigen::VectorXd& a, const Eigen::VectorXd& b, const Eigen::VectorXd& width) const;

 private:
  void draw(size_t parameter, Eigen::VectorXd& position, CounterRng& random) const;
  void choose(size_t parameter, int64_t choice, Eigen::VectorXd& position) const;

  Space space_;
  std::vector<Eigen::Index> group_;    // parameter of each coordinate
  std::vector<Eigen::Index> first_;    // first coordinate of each parameter
  std::vector<Eigen::Index> choices_;  // coordinates of categorical parameters
  std::vector<bool> smooth_;           // by parameter
  Eigen::VectorXd mixable_;
};

}  // namespace tw::search
