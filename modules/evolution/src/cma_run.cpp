// SPDX-License-Identifier: Apache-2.0
#include "cma_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tw::search {
namespace {

using Eigen::Index;

/// As a share of the ranges; larger deviations carry no more information.
constexpr double largest_deviation = 1;

}  // namespace

CmaRun::CmaRun(const CmaCoordinates& coordinates, Eigen::VectorXd mean, double sigma, const CmaParameters& parameters, double tol_fun, double tol_x)
    : coordinates_(&coordinates), distribution_(std::move(mean), sigma, parameters), termination_(parameters, tol_fun, tol_x) {
  sorted_.resize(static_cast<Index>(parameters.dimensions), static_cast<Index>(parameters.lambda));
  drawn_.resizeLike(sorted_);
  origins_.resize(parameters.lambda);
  losses_.resize(parameters.lambda);
  order_.resize(parameters.lambda);
  results_.reserve(parameters.lambda);
  stretch_discrete();
}

Proposal CmaRun::ask(int32_t run, CounterRng& random) {
  Sample sample;
  distribution_.sample(random, sample.z);
  sample.y = distribution_.step_to(sample.z);
  sample.values = coordinates_->values_of(sample.z);
  Proposal proposal{sample.values, {run, version_, asked_++}};
  in_flight_.emplace(std::pair{proposal.tag.generation, proposal.tag.index}, std::move(sample));
  // Forgets the oldest proposals, which may never return. A result that returns later counts as foreign.
  if (in_flight_.size() > 16 * distribution_.parameters().lambda + 1024) in_flight_.erase(in_flight_.begin());
  return proposal;
}

CmaStop CmaRun::tell(const Individual& individual) {
  results_.push_back(take(individual));
  ++evaluations_;
  return results_.size() < distribution_.parameters().lambda ? CmaStop::none : update();
}

CmaRun::Result CmaRun::take(const Individual& individual) {
  Result result{individual.standing(), foreign, {}, {}};
  const auto own = in_flight_.find({individual.tag.generation, individual.tag.index});
  if (own != in_flight_.end() && same_values(own->second.values, individual.values)) {
    result.z = std::move(own->second.z);
    result.y = std::move(own->second.y);
    result.version = individual.tag.generation;
    in_flight_.erase(own);
  } else {
    result.z.resize(static_cast<Index>(coordinates_->size()));
    coordinates_->position_of(individual.values, result.z);
  }
  return result;
}

CmaStop CmaRun::update() {
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::vector<Standing> standings;
  for (const Result& each : results_) standings.push_back(each.standing);
  const std::vector<double> losses = merits(standings);
  std::ranges::stable_sort(order_, {}, [&](size_t i) { return standings[i]; });
  for (size_t rank = 0; rank < order_.size(); ++rank) {
    const Result& result = results_[order_[rank]];
    const auto column = static_cast<Index>(rank);
    sorted_.col(column) = result.z;
    origins_[rank] = result.version == foreign ? CmaOrigin::foreign : result.version == version_ ? CmaOrigin::current : CmaOrigin::late;
    if (origins_[rank] == CmaOrigin::late) drawn_.col(column) = result.y;
    losses_[rank] = losses[order_[rank]];
  }
  results_.clear();
  if (!std::isfinite(losses_.front())) return CmaStop::none;

  distribution_.update(sorted_, origins_, drawn_);
  ++version_;
  asked_ = 0;
  distribution_.limit_deviation(largest_deviation);
  Eigen::VectorXd mean = distribution_.mean();
  coordinates_->keep_within(mean);
  distribution_.set_mean(mean);
  stretch_discrete();
  return termination_.after(distribution_, losses_);
}

void CmaRun::stretch_discrete() {
  if (!coordinates_->has_margin()) return;
  const CmaParameters& p = distribution_.parameters();
  const double alpha = 1 / static_cast<double>(std::max<size_t>(4, p.lambda * p.dimensions));
  coordinates_->least_deviations(distribution_.mean(), alpha, least_);
  distribution_.set_stretch((least_.array() / distribution_.deviations().array()).max(1).matrix());
}

}  // namespace tw::search
