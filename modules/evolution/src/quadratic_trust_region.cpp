// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/quadratic_trust_region.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/evolution/draws.hpp>

#include "answers.hpp"
#include "bounded_step.hpp"
#include "dimension_limit.hpp"
#include "ellipsoid.hpp"
#include "noise_watch.hpp"
#include "quadratic_model.hpp"
#include "values_set.hpp"

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double min_expected = 1e-300;  // least expected gain of a model's proposal
constexpr Index max_points = 150;        // in a model; with noise twice as many
constexpr double reach = 2;              // distance at which a point's weight is a half, in radii
constexpr double too_near = 0.05;        // in radii
constexpr double largest_radius = 0.5;
constexpr size_t many = 1;                  // more proposals in flight than this are many
constexpr double of_neighbours = 0.6;       // the radius, as a share of a neighbour's distance
constexpr double twin = 1e-6;               // distance between a trial and its twin, which reveals noise, in radii
constexpr double noise_perturbation = 0.2;  // distance of a proposal from the model's minimum under noise, in radii
constexpr double significant_errors = 4;    // least gain that counts, in standard errors
constexpr double well_inside = 0.7;         // distance of such a minimum from the centre, at most, in radii
constexpr double shrinks_by = 0.95;         // factor under noise, each time that the minimum lies well inside

VectorXd random_direction(Index dimensions, CounterRng& random) {
  VectorXd d(dimensions);
  for (double& each : d) each = normal(random);
  return d.normalized();
}

VectorXd random_position(Index dimensions, CounterRng& random) {
  VectorXd x(dimensions);
  for (double& each : x) each = uniform(random);
  return x;
}

VectorXd clipped(const VectorXd& x) { return x.cwiseMax(0).cwiseMin(1); }

/// Reflects at the faces, so that random positions do not accumulate there.
VectorXd reflected(const VectorXd& x) {
  return x.unaryExpr([](double each) { return std::abs(std::remainder(each, 2.0)); });
}

VectorXd as_vector(const std::vector<double>& x) { return Eigen::Map<const VectorXd>(x.data(), static_cast<Index>(x.size())); }

}  // namespace

void visit(QuadraticTrustRegionOptions& options, OptionVisitor& visitor) {
  visitor.field("radius", options.radius, {.least = 0, .most = largest_radius, .excludes_least = true},
                {.meaning = "radius of the first region, as a share of each range"});
  visitor.field("collapsed", options.collapsed, {.least = 0, .excludes_least = true}, {.meaning = "radius below which a region is abandoned"});
}

void QuadraticTrustRegionOptions::validate(const Space& space) const {
  expect_none(out_of_bounds("quadratic_trust_region", *this));
  expect_few_dimensions(space, 1000, "a quadratic model");
  TW_EXPECTS(collapsed < radius, "quadratic_trust_region.collapsed must be below `radius`, got ", collapsed);
  TW_EXPECTS(start.empty() || space.contains(start), "quadratic_trust_region.start is not a valid configuration of the space");
}

class QuadraticTrustRegion::Core {
 public:
  Core(const Space& space, QuadraticTrustRegionOptions options, uint64_t seed, Share share)
      : space_(space), options_(std::move(options)), seed_(seed), share_(share), shape_(dimensions()) {
    begin(0);
  }

  Proposal ask(CounterRng& random) {
    Candidate candidate = next(random);
    std::vector<double> values = values_at(candidate.position);
    for (int i = 0; i < 20 && !tried_.insert(values).second; ++i) {  // already proposed: by an earlier region, or after rounding
      candidate.position = at_any_scale(candidate.position, random);
      values = values_at(candidate.position);
    }
    candidate.proposal.values = std::move(values);
    candidate.proposal.tag = {.run = run_, .index = asked_++};
    return pending_.emplace(candidate.proposal.tag.index, std::move(candidate)).first->second.proposal;
  }

  void tell(const Individual& individual) {
    if (individual.state == TrialState::running) return;
    const bool foreign_run = individual.moves > 0;
    if (!foreign_run && individual.tag.run > run_) begin(individual.tag.run);  // another worker's region has collapsed
    if (!foreign_run && individual.tag.run < run_) return;
    const auto found = pending_.find(individual.tag.index);
    const bool own = found != pending_.end() && answers(individual, found->second.proposal);
    const Candidate candidate = own ? std::move(found->second) : Candidate{.position = as_vector(space_.encode(individual.values))};
    if (own) pending_.erase(found);
    const Point point{candidate.position, individual.standing()};
    const bool is_known = std::isfinite(point.standing.rank_value());
    if (is_known && point.standing.is_allowed()) worst_ = std::max(worst_, point.standing.loss);
    if (candidate.is_twin) {
      compare(candidate, point.standing);
    } else if (!noise_.found()) {
      adjust(candidate, point.standing);
      if (point.standing < best_.standing) best_ = point;
    }
    // A twin adds no information unless there is noise.
    if (is_known && (!candidate.is_twin || noise_.found())) points_.push_back(point);
    if (radius_ < options_.collapsed) begin(run_ + 1);
  }

  int32_t run() const noexcept { return run_; }
  double radius() const noexcept { return radius_; }

 private:
  struct Point {
    VectorXd position;
    Standing standing = {};
  };
  struct Candidate {
    VectorXd position;
    Proposal proposal = {};
    double expected = 0;   // predicted gain over `base`, if a model proposed it; otherwise 0
    Standing base = {};    // standing of the best point when it was proposed
    double radius = 0;     // radius when it was proposed
    double step = 0;       // length of the step
    bool is_twin = false;  // whether it is a twin of the best point at that time
  };
  /// A model in y = shape (x - centre) / radius.
  struct Fit {
    QuadraticModel model;
    std::vector<size_t> points;
    std::vector<double> losses;  // losses of these points, or their merits
  };

  Index dimensions() const { return static_cast<Index>(space_.dimensions()); }
  std::vector<double> values_at(const VectorXd& position) const { return space_.decode({position.begin(), position.end()}); }
  size_t others() const { return pending_.size() + static_cast<size_t>(share_.stride) - 1; }

  // The same for all workers.
  void begin(int32_t run) {
    CounterRng random(seed_, static_cast<uint64_t>(run));
    run_ = run;
    radius_ = options_.radius;
    shape_ = Ellipsoid(dimensions());
    best_ = {run > 0 ? random_position(dimensions(), random) : VectorXd::Constant(dimensions(), 0.5)};
    if (run == 0 && !options_.start.empty()) best_.position = as_vector(space_.encode(options_.start));
    first_ = best_.position;
    pending_.clear();
    points_.clear();
    worst_ = -infinity;
    asked_ = 0;
  }

  void compare(const Candidate& candidate, const Standing& standing) {
    const double error = error_of(candidate, standing);
    if (!std::isfinite(error)) return;
    noise_.compare(error, worst_ - best_.standing.loss);
    if (noise_.found()) radius_ = std::max(radius_, options_.radius);  // it was reduced without reason
  }

  /// Error of a model's prediction. Infinite if constraints are violated, because the error then has other causes than noise.
  static double error_of(const Candidate& candidate, const Standing& standing) {
    const bool are_allowed = candidate.base.is_allowed() && standing.is_allowed();
    return are_allowed ? standing.loss - candidate.base.loss + candidate.expected : infinity;
  }

  void adjust(const Candidate& candidate, const Standing& standing) {
    if (candidate.expected <= 0) return;
    const double ratio = gain(candidate.base, standing) / candidate.expected;
    if (ratio >= 0.1) {
      noise_.confirmed();
    } else {
      noise_.refuted(error_of(candidate, standing));
    }
    if (standing < best_.standing && ratio > 0.7) {
      radius_ = std::max(radius_, std::min(2 * candidate.step, largest_radius));
    } else if (!(ratio >= 0.1) && candidate.base == best_.standing) {
      radius_ = std::min(radius_, std::max(0.7 * candidate.radius, 0.3 * radius_));
    }
  }

  Candidate next(CounterRng& random) {
    const auto slot = static_cast<Index>(share_.first + asked_ * share_.stride);
    if (slot == 0) return {.position = first_};
    if (slot <= dimensions()) {
      Candidate along{.position = first_};
      along.position[slot - 1] += first_[slot - 1] + radius_ <= 1 ? radius_ : -radius_;
      return along;
    }
    if (points_.size() < 2) return {.position = random_position(dimensions(), random)};
    if (noise_.asks_for_a_twin()) {
      return {.position = reflected(best_.position + twin * radius_ * shape_.from(random_direction(dimensions(), random))),
              .base = best_.standing,
              .is_twin = true};
    }
    if (noise_.found()) return below_noise(random);
    if (others() > many) radius_ = radius_by_neighbours(random);
    return least_of(fit(others() > 0 ? &random : nullptr), random);
  }

  /// The losses of points, or their merits.
  std::vector<double> losses_of(const std::vector<size_t>& points) const {
    std::vector<Standing> standings;
    for (const size_t i : points) standings.push_back(points_[i].standing);
    return merits(standings);
  }

  VectorXd in_radii(const VectorXd& x) const { return shape_.to(x - best_.position) / radius_; }

  MatrixXd in_radii(const std::vector<size_t>& points) const {
    MatrixXd y(dimensions(), static_cast<Index>(points.size()));
    for (size_t i = 0; i < points.size(); ++i) y.col(static_cast<Index>(i)) = in_radii(points_[points[i]].position);
    return y;
  }

  /// @param random for random weights; null: no random weights
  Fit fit(CounterRng* random) const {
    const Index coefficients = QuadraticModel::coefficients(dimensions());
    const bool is_many = others() > many && !noise_.found();
    const Index wanted = noise_.found() ? 2 * max_points : std::min(is_many ? 3 * coefficients : 3 * coefficients / 2, max_points);
    Fit fit{.model = {}, .points = nearest(static_cast<size_t>(wanted)), .losses = {}};
    fit.losses = losses_of(fit.points);
    const MatrixXd y = in_radii(fit.points);
    const VectorXd losses = as_vector(fit.losses);
    VectorXd weights(y.cols());
    for (Index i = 0; i < y.cols(); ++i) {
      weights[i] = weight_of(y.col(i));
      if (random != nullptr) weights[i] *= -std::log1p(-uniform(*random));
    }
    if (is_many) weights.array() *= weights_by_rank(losses).array();
    fit.model = QuadraticModel::fitted(y, losses, weights, deviation_);
    return fit;
  }

  /// 1 / (1 + r / (2 D))^2 for the r-th best.
  VectorXd weights_by_rank(const VectorXd& losses) const {
    std::vector<Index> order(static_cast<size_t>(losses.size()));
    std::iota(order.begin(), order.end(), Index{0});
    std::ranges::stable_sort(order, {}, [&](Index i) { return losses[i]; });
    VectorXd weights(losses.size());
    for (size_t rank = 0; rank < order.size(); ++rank) {
      weights[order[rank]] = std::pow(1 + static_cast<double>(rank) / static_cast<double>(2 * dimensions()), -2);
    }
    return weights;
  }

  /// A radius from the distances of the nearest trials to the best one, randomised over one decade. Many proposals begin before it is known which
  /// step was the right one.
  double radius_by_neighbours(CounterRng& random) const {
    const std::vector<size_t> near = nearest(static_cast<size_t>(2 * dimensions()) + 1);
    const double distance = shape_.length(points_[near.back()].position - best_.position);
    return std::min(of_neighbours * std::pow(10, uniform(random) - 0.5) * distance, 2 * largest_radius);
  }

  static double weight_of(const VectorXd& y) { return 1 / (1 + std::pow(y.norm() / reach, 4)); }

  /// The minimum of a model with random weights. Under noise a trial's own loss decides nothing: the centre is the trial where the model is least.
  Candidate below_noise(CounterRng& random) {
    const Fit all = fit(nullptr);
    const auto points = static_cast<double>(all.points.size());
    const auto coefficients = static_cast<double>(QuadraticModel::coefficients(dimensions()));
    double squares = 0;
    double weights = 0;
    Point centre{best_.position};
    for (size_t k = 0; k < all.points.size(); ++k) {
      const Point& point = points_[all.points[k]];
      const VectorXd y = in_radii(point.position);
      const double value = all.model.at(y);
      squares += weight_of(y) * std::pow(all.losses[k] - value, 2);
      weights += weight_of(y);
      const Standing smoothed{point.standing.violation, value};
      if (y.norm() <= 1 && smoothed < centre.standing) centre = {point.position, smoothed};
    }
    deviation_ = std::sqrt(squares / weights * points / std::max(points - coefficients, points / 5));
    const VectorXd least = all.model.minimizer();
    const double error = deviation_ * std::sqrt(static_cast<double>(dimensions()) / points);  // error of the slope, over a radius
    if (all.model.constant - all.model.at(least) > significant_errors * error && least.norm() < well_inside) radius_ *= shrinks_by;
    best_ = centre;
    const VectorXd step = fit(&random).model.minimizer() + noise_perturbation * random_direction(dimensions(), random);
    const VectorXd position = clipped(best_.position + radius_ * shape_.from(step));
    return {.position = position.allFinite() ? position : random_position(dimensions(), random)};
  }

  std::vector<size_t> nearest(size_t count) const {
    std::vector<std::pair<double, size_t>> by_distance;
    for (size_t i = 0; i < points_.size(); ++i) by_distance.emplace_back(shape_.length(points_[i].position - best_.position), i);
    count = std::min(count, by_distance.size());
    std::partial_sort(by_distance.begin(), by_distance.begin() + static_cast<std::ptrdiff_t>(count), by_distance.end());
    std::vector<size_t> indices;
    for (size_t i = 0; i < count; ++i) indices.push_back(by_distance[i].second);
    return indices;
  }

  Candidate least_of(Fit fit, CounterRng& random) {
    QuadraticModel& model = fit.model;
    if (static_cast<Index>(fit.points.size()) >= QuadraticModel::coefficients(dimensions()) && is_shape_due()) {
      const MatrixXd back = shape_.follow(model.hessian);
      model = {model.constant, back * model.gradient, back * model.hessian * back};
    }
    VectorXd least = bounded_minimizer(model, best_.position, radius_, shape_);
    if (!least.allFinite()) least = random_position(dimensions(), random);  // losses too large for floating-point arithmetic
    const double expected = model.constant - model.at(in_radii(least));
    const double length = in_radii(least).norm();
    Candidate candidate{.position = least, .expected = std::max(expected, min_expected), .base = best_.standing, .radius = radius_};
    if (distance_to_others(least, fit.points) >= too_near) {
      candidate.step = radius_ * length;
      return candidate;
    }
    // The position is already known. If the nearby minimum gains nothing either, the region shrinks too.
    candidate.position = others() > 0 ? at_any_scale(least, random) : farthest_of_random(fit.points, random);
    if (others() == 0 && length < 0.1) radius_ *= 0.3;
    return candidate;
  }

  /// Limits how often the shape follows a model. Models that differ only in their weights would stretch it further and further, away from all known
  /// points.
  bool is_shape_due() {
    const size_t proposals = others() > many ? std::max(static_cast<size_t>(dimensions()), others() / 3) : 1;
    if (++since_shape_ < proposals) return false;
    since_shape_ = 0;
    return true;
  }

  /// The least distance to other points, in radii.
  double distance_to_others(const VectorXd& x, const std::vector<size_t>& points) const {
    double least = infinity;
    for (const size_t i : points) least = std::min(least, shape_.length(points_[i].position - x));
    for (const auto& [index, candidate] : pending_) least = std::min(least, shape_.length(candidate.position - x));
    return least / radius_;
  }

  VectorXd at_any_scale(const VectorXd& centre, CounterRng& random) const {
    const double distance = radius_ * std::pow(10, -3 * uniform(random));
    return reflected(centre + distance * shape_.from(random_direction(dimensions(), random)));
  }

  VectorXd farthest_of_random(const std::vector<size_t>& points, CounterRng& random) const {
    constexpr int tries = 20;
    double farthest = -1;
    VectorXd chosen = best_.position;
    for (int i = 0; i < tries; ++i) {
      const double distance = radius_ * std::pow(uniform(random), 1.0 / static_cast<double>(dimensions()));
      const VectorXd x = reflected(best_.position + distance * shape_.from(random_direction(dimensions(), random)));
      const double away = distance_to_others(x, points);
      if (away <= farthest) continue;
      farthest = away;
      chosen = x;
    }
    return chosen;
  }

  Space space_;
  QuadraticTrustRegionOptions options_;
  uint64_t seed_;
  Share share_;
  Ellipsoid shape_;
  int32_t run_ = 0;
  double radius_ = 0;
  VectorXd first_;             // centre at the beginning of the run
  Point best_;                 // best point of this run
  std::vector<Point> points_;  // points of this run with finite losses
  std::map<int32_t, Candidate> pending_;
  double worst_ = -infinity;  // worst loss of this run
  int32_t asked_ = 0;
  size_t since_shape_ = 0;  // proposals since the shape changed
  NoiseWatch noise_;
  double deviation_ = 0;  // standard deviation of the noise
  ValuesSet tried_;       // values tried in all runs
};

QuadraticTrustRegion::QuadraticTrustRegion(const Space& space, QuadraticTrustRegionOptions options, uint64_t seed, Share share) {
  options.validate(space);
  share.validate();
  core_ = std::make_unique<Core>(space, std::move(options), seed, share);
}
QuadraticTrustRegion::~QuadraticTrustRegion() = default;

Proposal QuadraticTrustRegion::ask(const Population& /*population*/, CounterRng& random) { return core_->ask(random); }
void QuadraticTrustRegion::tell(const Individual& individual) { core_->tell(individual); }
int32_t QuadraticTrustRegion::restarts() const noexcept { return core_->run(); }
double QuadraticTrustRegion::radius() const noexcept { return core_->radius(); }

}  // namespace tw::search
