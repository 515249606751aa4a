// SPDX-License-Identifier: Apache-2.0
#include "gp_fit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

struct Normal {
  double mean;
  double deviation;
};
const Normal amplitude_prior{0, 1.5};
const Normal quadratic_prior{std::log(0.1), 3};
const Normal noise_prior{std::log(1e-5), 5};

VectorXd bounds(Index groups, double length, double amplitude, double quadratic, double noise) {
  VectorXd logs = VectorXd::Constant(groups + 3, std::log(length));
  logs.tail(3) << std::log(amplitude), std::log(quadratic), std::log(noise);
  return logs;
}

}  // namespace

GpParameters first_parameters(Index groups, Index dimensions, double noise) {
  return {bounds(groups, 0.5 * std::sqrt(static_cast<double>(dimensions)), 1, 0.1, noise)};
}

double log_prior(const GpParameters& parameters, Index dimensions, VectorXd& gradient) {
  const Index groups = parameters.groups();
  const Normal length{std::numbers::sqrt2 + std::log(static_cast<double>(dimensions)) / 2, std::numbers::sqrt3};
  double value = 0;
  const auto add = [&](Index i, const Normal& prior) {
    const double z = (parameters.logs[i] - prior.mean) / prior.deviation;
    value -= z * z / 2;
    gradient[i] -= z / prior.deviation;
  };
  for (Index i = 0; i < groups; ++i) {
    add(i, length);
    value -= parameters.logs[i];  // the density is over lengths, not over their logarithms
    gradient[i] -= 1;
  }
  add(groups, amplitude_prior);
  add(groups + 1, quadratic_prior);
  add(groups + 2, noise_prior);
  return value;
}

GpFit::GpFit(Eigen::MatrixXd positions, VectorXd losses, std::vector<Index> group, const std::vector<GpParameters>& starts, int iterations)
    : positions_(std::move(positions)), losses_(std::move(losses)), group_(std::move(group)) {
  const Index groups = starts.front().groups();
  for (const GpParameters& start : starts) {
    descents_.emplace_back(start.logs, bounds(groups, 1e-2, 1e-4, 1e-8, 1e-10), bounds(groups, 1e3, 1e3, 1e4, 1), iterations);
  }
}

double GpFit::loss(const VectorXd& logs, VectorXd& gradient) const {
  const GpRegression regression(positions_, losses_, {logs}, group_);
  if (!regression.is_valid()) return std::numeric_limits<double>::infinity();
  double value = regression.log_likelihood(&gradient);
  value += log_prior({logs}, positions_.rows(), gradient);
  gradient = -gradient;
  return std::isfinite(value) ? -value : std::numeric_limits<double>::infinity();
}

void GpFit::go_on(int evaluations) {
  for (Descent& descent : descents_) {
    if (descent.has_ended()) continue;
    if (evaluations <= 0) return;
    evaluations -= descent.go_on([this](const VectorXd& logs, VectorXd& gradient) { return loss(logs, gradient); }, evaluations);
  }
}

bool GpFit::has_ended() const { return std::ranges::all_of(descents_, &Descent::has_ended); }

GpParameters GpFit::found() const { return {std::ranges::min_element(descents_, {}, &Descent::value)->x()}; }

GpParameters fitted(const Eigen::MatrixXd& positions, const VectorXd& losses, const std::vector<Index>& group,
                    const std::vector<GpParameters>& starts, int iterations) {
  GpFit fit(positions, losses, group, starts, iterations);
  fit.go_on(std::numeric_limits<int>::max());
  return fit.found();
}

}  // namespace tw::search
