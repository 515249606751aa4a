// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <tw/base/random.hpp>
#include <vector>

#include "cma_parameters.hpp"

namespace tw::search {

/// Origin of a sample: this version of the distribution, an earlier version, or elsewhere.
enum class CmaOrigin : uint8_t { current, late, foreign };

/// The normal distribution that CMA-ES samples and adapts, N(m, sigma^2 A C A): mean m, covariance C = B D^2 B^T, and a diagonal stretch A, which is
/// not adapted (Hamano et al. 2022) and 1 unless set. Ref: Hansen 2016, arXiv 1604.00772.
class CmaDistribution {
 public:
  CmaDistribution(Eigen::VectorXd mean, double sigma, const CmaParameters& parameters);

  /// x = m + sigma A B D z with z ~ N(0, 1). @param x [n], written
  void sample(CounterRng& random, Eigen::VectorXd& x);

  /// The y for which x = m + sigma A y.
  Eigen::VectorXd step_to(const Eigen::VectorXd& x) const { return ((x - mean_).array() / (sigma_ * stretch_.array())).matrix(); }

  /// Updates by one generation. Late and foreign samples move the mean by the step from its current place to them. This step is shortened to a
  /// Mahalanobis length ||C^-1/2 y|| of at most sqrt(n) + 2 n / (n + 2) (Hansen 2011, arXiv 1110.4181). In the paths and C, a late sample counts with
  /// the step at which it was drawn, because these updates assume the distribution of that step. Otherwise the drift between versions would look like
  /// progress, and with many proposals in flight an ellipsoid costs five times as much.
  /// @param samples [n, lambda], columns from the best to the worst. @param origins [lambda]
  /// @param drawn [n, lambda], for late samples the step_to() them when they were drawn; other columns are not read
  void update(const Eigen::MatrixXd& samples, const std::vector<CmaOrigin>& origins, const Eigen::MatrixXd& drawn);

  /// All elements must be at least 1.
  void set_stretch(const Eigen::VectorXd& stretch) { stretch_ = stretch; }
  void set_mean(const Eigen::VectorXd& mean) { mean_ = mean; }
  /// Lowers sigma until the deviation of every coordinate is at most `most`.
  void limit_deviation(double most);

  const CmaParameters& parameters() const noexcept { return parameters_; }
  const Eigen::VectorXd& mean() const noexcept { return mean_; }
  double sigma() const noexcept { return sigma_; }
  /// sigma sqrt(C_ii), without the stretch.
  Eigen::VectorXd deviations() const { return sigma_ * covariance_.diagonal().cwiseMax(0).cwiseSqrt(); }
  const Eigen::MatrixXd& covariance() const noexcept { return covariance_; }
  /// B and the diagonal of D, of the last decomposition.
  const Eigen::MatrixXd& axes() const noexcept { return axes_; }
  const Eigen::VectorXd& lengths() const noexcept { return lengths_; }
  const Eigen::VectorXd& path() const noexcept { return path_c_; }
  /// The condition of C at the last decomposition; infinite if C is no longer positive definite.
  double condition() const noexcept { return condition_; }
  size_t generation() const noexcept { return generation_; }

 private:
  void decompose();
  /// C^-1/2 y, in the coordinates of the axes.
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
  size_t decomposed_ = 0;  // generation of axes_ and lengths_
  // Temporaries of one sample or generation, kept to avoid allocations.
  Eigen::VectorXd normal_;    // [n]
  Eigen::MatrixXd steps_;     // [n, lambda]
  Eigen::MatrixXd whitened_;  // [n, lambda]
};

}  // namespace tw::search
