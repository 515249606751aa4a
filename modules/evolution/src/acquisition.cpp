// SPDX-License-Identifier: Apache-2.0
#include "acquisition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tw/evolution/draws.hpp>

#include "descent.hpp"
#include "improvement.hpp"

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr size_t improved = 3;
constexpr int max_descent_steps = 25;
constexpr int rounds_of_exchanges = 3;
constexpr double parameters_drawn = 20;  // parameters redrawn per candidate, on average; Regis & Shoemaker 2013
constexpr double min_predicted_deviation = 1e-12;

struct Scored {
  VectorXd position;
  double score;
};

double score_of(double mean, double variance, double best) {
  return log_expected_improvement(mean, std::max(std::sqrt(variance), min_predicted_deviation), best).value;
}

void score(std::vector<Scored>& places, const AcquisitionSearch& search, double best) {
  if (places.empty()) return;
  Eigen::MatrixXd columns(search.coordinates.size(), static_cast<Index>(places.size()));
  for (size_t i = 0; i < places.size(); ++i) columns.col(static_cast<Index>(i)) = search.frame.inside(places[i].position);
  VectorXd means;
  VectorXd variances;
  search.model.at(columns, means, variances);
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].score = score_of(means[static_cast<Index>(i)], variances[static_cast<Index>(i)], best);
  }
}

/// Half of the candidates anywhere in the box, the others in smaller boxes, down to a hundredth of its size.
std::vector<Scored> candidates(const AcquisitionSearch& search, CounterRng& random) {
  std::vector<Scored> all;
  const double share = std::min(1.0, parameters_drawn / static_cast<double>(search.coordinates.groups()));
  for (size_t i = 0; i < search.candidates; ++i) {
    const double size = i % 2 == 0 ? 1 : std::pow(10, -2 * uniform(random));
    VectorXd shift(search.half.size());
    for (Index d = 0; d < shift.size(); ++d) shift[d] = bernoulli(random, share) ? size * search.half[d] * uniform(random, -1, 1) : 0;
    all.push_back({search.coordinates.random_near(search.centre, search.frame.out * shift, share, random), 0});
  }
  return all;
}

/// Improves smooth coordinates by gradient.
Scored climbed(const Scored& from, const AcquisitionSearch& search, double best) {
  const VectorXd start = search.frame.inside(from.position);
  const VectorXd middle = search.frame.inside(search.centre);
  const VectorXd low = start.cwiseMin(middle - search.half);
  const VectorXd high = start.cwiseMax(middle + search.half);
  const VectorXd movable = search.coordinates.movable(from.position);
  // Outside the cube, the value is that of the nearest point inside.
  const auto kept = [&](const VectorXd& u) -> VectorXd {
    const VectorXd x = search.frame.outside(u).cwiseMax(0).cwiseMin(1);
    return movable.select(x, from.position);
  };
  VectorXd mean_slope;
  VectorXd variance_slope;
  const Differentiable loss = [&](const VectorXd& u, VectorXd& gradient) {
    const VectorXd x = kept(u);
    const GpRegression::Prediction at = search.model.at(search.frame.inside(x), mean_slope, variance_slope);
    const double deviation = std::max(std::sqrt(at.variance), min_predicted_deviation);
    const LogImprovement gain = log_expected_improvement(at.mean, deviation, best);
    VectorXd by_x = search.frame.in.transpose() * (-gain.by_mean * mean_slope - gain.by_deviation / (2 * deviation) * variance_slope);
    for (Index d = 0; d < x.size(); ++d) {
      const bool leaves = (x[d] <= 0 && by_x[d] > 0) || (x[d] >= 1 && by_x[d] < 0);
      if (movable[d] == 0 || leaves) by_x[d] = 0;
    }
    gradient = search.frame.out.transpose() * by_x;
    return -gain.value;
  };
  const Descent found = descended(loss, start, low, high, max_descent_steps);
  return {kept(found.x()), -found.value()};
}

/// Improves choices by the best exchange in each round.
Scored exchanged(Scored at, const AcquisitionSearch& search, double best) {
  for (int round = 0; round < rounds_of_exchanges; ++round) {
    std::vector<Scored> others;
    for (VectorXd& position : search.coordinates.exchanges(at.position)) others.push_back({std::move(position), 0});
    score(others, search, best);
    const auto better = std::ranges::max_element(others, {}, &Scored::score);
    if (better == others.end() || !(better->score > at.score)) break;
    at = std::move(*better);
  }
  return at;
}

}  // namespace

Promising most_promising(const AcquisitionSearch& search, double best, CounterRng& random) {
  std::vector<Scored> places = candidates(search, random);
  score(places, search, best);
  const size_t few = std::min(improved, places.size());
  std::ranges::partial_sort(places, places.begin() + static_cast<std::ptrdiff_t>(few), std::ranges::greater{}, &Scored::score);
  std::vector<Scored> finals;
  for (size_t i = 0; i < few; ++i) finals.push_back(climbed(exchanged(places[i], search, best), search, best));
  for (Scored& each : finals) each.position = search.coordinates.snapped(each.position);
  score(finals, search, best);  // rounding of whole numbers changed the position
  finals.insert(finals.end(), std::make_move_iterator(places.begin()), std::make_move_iterator(places.end()));
  std::ranges::stable_sort(finals, std::ranges::greater{}, &Scored::score);
  const auto found = std::ranges::find_if(finals, [&](const Scored& each) { return !search.is_taken(each.position); });
  if (found != finals.end()) return {found->position, found->score};
  return {search.coordinates.random(random), -std::numeric_limits<double>::infinity()};
}

}  // namespace tw::search
