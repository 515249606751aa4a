// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <tw/base/random.hpp>
#include <vector>

#include "cma_parameters.hpp"

namespace tw::search {

/// Where a sample comes from: this version of the distribution, an earlier one, or somewhere else.
enum class CmaOrigin : uint8_t { current, late, foreign };

/// The normal distribution that CMA-ES samples and adapts, N(m, sigma^2 A C A): m the mean, C the covariance B D^2 B^T, A a diagonal stretch that is
/// not adapted (Hamano et al. 2022) and 1 unless set. Ref: Hansen 2016, arXiv 1604.00772.
class CmaDistribution {
 public:
  CmaDistribution(Eigen::VectorXd mean, double sigma, const CmaParameters& parameters);

  /// x = m + sigma A B D z with z ~ N(0, 1). @param x [n], written
  void sample(CounterRng& random, Eigen::VectorXd& x);

  /// y with x = m + sigma A y.
  Eigen::VectorXd step_to(const Eigen::VectorXd& x) const { return ((x - mean_).array() / (sigma_ * stretch_.array())).matrix(); }

  /// One generation. Late and foreign samples move the mean by the step to them from where it is now, shortened to a Mahalanobis length
  /// ||C^-1/2 y|| of at most sqrt(n) + 2 n / (n + 2) (Hansen 2011, arXiv 1110.4181). A late one's part in the paths and C is the step with which it
  /// was drawn, since only that has the distribution which these updates assume: else the way between versions is taken for a direction of progress,
  /// and many proposals in flight make an ellipsoid five times as costly.
  /// @param samples [n, lambda], columns from the best to the worst. @param origins [lambda]
  /// @param drawn [n, lambda], of late ones the step_to() them when they were drawn; other columns are not read
  void update(const Eigen::MatrixXd& samples, const std::vector<CmaOrigin>& origins, const Eigen::MatrixXd& drawn);

  /// At least 1 each.
  void set_stretch(const Eigen::VectorXd& stretch) { stretch_ = stretch; }
  void set_mean(const Eigen::VectorXd& mean) { mean_ = mean; }
  /// Lowers sigma until no coordinate's deviation is above `most`.
  void limit_deviation(double most);

  const CmaParameters& parameters() const noexcept { return parameters_; }
  const Eigen::VectorXd& mean() const noexcept { return mean_; }
  double sigma() const noexcept { return sigma_; }
  /// sigma sqrt(C_ii): without the stretch.
  Eigen::VectorXd deviations() const { return sigma_ * covariance_.diagonal().cwiseMax(0).cwiseSqrt(); }
  const Eigen::MatrixXd& covariance() const noexcept { return covariance_; }
  /// B and the diagonal of D, of the last decomposition.
  const Eigen::MatrixXd& axes() const noexcept { return axes_; }
  const Eigen::VectorXd& lengths() const noexcept { return lengths_; }
  const Eigen::VectorXd& path() const noexcept { return path_c_; }
  /// Of C, at the last decomposition; infinite when that is no longer positive definite.
  double condition() const noexcept { return condition_; }
  size_t generation() const noexcept { return generation_; }

 private:
  void decompose();
  /// C^-1/2 y in the axes' coordinates.
  template <class Steps>
  void whiten(const Steps& steps, Eigen::Ref<Eigen::MatrixXd> whitened) const;

  CmaParameters parameters_;
  Eigen::VectorXd mean_;
  double sigma_;
  Eigen::VectorXd stretch_;
  Eigen::VectorXd path_sigma_;
  Eigen::VectorXd path_c_;
  Eigen::MatrixXd covariance_;
  Eigen::MatrixXd axes_;
  Eigen::VectorXd lengths_;
  double condition_ = 1;
  size_t generation_ = 0;
  size_t decomposed_ = 0;  // the generation of axes_ and lengths_
  // Of one sample or generation; kept for their memory.
  Eigen::VectorXd normal_;    // [n]
  Eigen::MatrixXd steps_;     // [n, lambda]
  Eigen::MatrixXd whitened_;  // [n, lambda]
};

}  // namespace tw::search
