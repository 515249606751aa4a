// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <tw/base/random.hpp>
#include <tw/evolution/space.hpp>
#include <vector>

namespace tw::search {

/// The positions of a space as a model of losses sees them: which coordinates are smooth, so that a gradient means something, which share a length,
/// and what is near a place.
class GpCoordinates {
 public:
  explicit GpCoordinates(const Space& space);

  Eigen::Index size() const noexcept { return static_cast<Eigen::Index>(group_.size()); }
  /// The parameter of each coordinate.
  const std::vector<Eigen::Index>& group() const noexcept { return group_; }
  Eigen::Index groups() const noexcept { return static_cast<Eigen::Index>(space_->size()); }
  /// On a scale: real, or with eight values at least. Others are choices, near to each other.
  bool is_smooth(Eigen::Index coordinate) const { return smooth_[static_cast<size_t>(group_[static_cast<size_t>(coordinate)])]; }

  Eigen::VectorXd position_of(const std::vector<double>& values) const;
  std::vector<double> values_of(const Eigen::VectorXd& position) const;
  /// Where the values of this position are.
  Eigen::VectorXd snapped(const Eigen::VectorXd& position) const { return position_of(values_of(position)); }

  /// Whether there are categorical parameters.
  bool has_branches() const noexcept { return !choices_.empty(); }
  /// The choices of all categorical parameters.
  Eigen::VectorXd branch(const Eigen::VectorXd& position) const { return position(choices_); }
  /// 1 for coordinates that are smooth and exist there, 0 for others.
  Eigen::VectorXd movable(const Eigen::VectorXd& position) const;
  /// 1 for coordinates that are smooth and always exist: those that may be mixed.
  const Eigen::VectorXd& mixable() const noexcept { return mixable_; }

  Eigen::VectorXd random(CounterRng& random) const;
  /// Smooth coordinates of `centre` shifted, into the cube; other parameters drawn anew with probability `share`, but no more than 0.3, and in any
  /// case what does not exist at the centre.
  Eigen::VectorXd random_near(const Eigen::VectorXd& centre, const Eigen::VectorXd& shift, double share, CounterRng& random) const;
  /// All positions with one choice exchanged: at most seven for each parameter that is not smooth.
  std::vector<Eigen::VectorXd> exchanges(const Eigen::VectorXd& position) const;
  /// The largest of the smooth coordinates of a difference.
  double length(const Eigen::VectorXd& difference) const;
  /// Whether they differ by less than `width` in smooth coordinates, and not at all in others.
  bool are_near(const Eigen::VectorXd& a, const Eigen::VectorXd& b, const Eigen::VectorXd& width) const;

 private:
  void draw(size_t parameter, Eigen::VectorXd& position, CounterRng& random) const;
  void choose(size_t parameter, int64_t choice, Eigen::VectorXd& position) const;

  const Space* space_;
  std::vector<Eigen::Index> group_;    // by coordinate
  std::vector<Eigen::Index> first_;    // coordinate, by parameter
  std::vector<Eigen::Index> choices_;  // coordinates of categorical parameters
  std::vector<bool> smooth_;           // by parameter
  Eigen::VectorXd mixable_;
};

}  // namespace tw::search
