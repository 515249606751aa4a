// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/gaussian_process.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/evolution/sampling.hpp>
#include <tw/evolution/sobol_sequence.hpp>

#include "acquisition.hpp"
#include "answers.hpp"
#include "curvature_metric.hpp"
#include "dimension_limit.hpp"
#include "gp_fit.hpp"
#include "gp_losses.hpp"
#include "linear_algebra.hpp"
#include "trust_region.hpp"

namespace tw::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int first_iterations = 30;
constexpr int later_iterations = 12;
constexpr Index trials_at_first = 70;  // in the first fit, which a single proposal must complete
constexpr size_t fits_between_starts = 5;
constexpr double cubes_at_a_time = 6e7;           // sum of n^3 over the likelihoods in one proposal: about 20 ms
constexpr double min_proposal_distance = 0.02;    // least distance between proposals in flight, as a share of the box's sides
constexpr double rescaled = 2;                    // a frame that has changed by this factor needs new length parameters
constexpr double significant_improvement = 1e-3;  // an improvement, as a share of the difference between the best and the median loss in the model
constexpr double max_stretched = 4;               // a side of the box relative to the mean side
constexpr double worthwhile = 1e-2;  // an expected improvement, as a share of the same difference; below it a branch of the space is exhausted
constexpr uint32_t turns = 4;        // one proposal out of this many searches everywhere, once a branch is exhausted
constexpr double neighbourhood = 2;  // distance within which the model uses all trials, in sides of the box

GaussianProcessOptions with_defaults(GaussianProcessOptions options, size_t parameters) {
  if (options.initial == 0) options.initial = std::max<size_t>(4, 2 * parameters);
  if (options.trials == 0) options.trials = std::min<size_t>(300, 50 + 10 * parameters);
  if (options.candidates == 0) options.candidates = std::min<size_t>(400, 100 + 10 * parameters);
  return options;
}

}  // namespace

void visit(GaussianProcessOptions& options, OptionVisitor& visitor) {
  visitor.field("initial", options.initial, at_least(0), {.meaning = "initial trials that cover the space; 0: 2 for each parameter, at least 4"});
  visitor.field("trials", options.trials, at_least(0, 2000), {.meaning = "trials that the model uses; 0: 50 + 10 for each parameter, at most 300"});
  visitor.field("candidates", options.candidates, at_least(0, 1 << 20),
                {.meaning = "candidates per proposal; 0: 100 + 10 for each parameter, at most 400"});
  visitor.field("collapsed", options.collapsed, {.least = 0, .most = 1, .excludes_least = true},
                {.meaning = "size below which a trust region is abandoned"});
}

void GaussianProcessOptions::validate() const {
  expect_none(out_of_bounds("gaussian_process", *this));
  TW_EXPECTS(trials != 1, "trials must be at least 2, or 0 for the default, got ", trials);
}

class GaussianProcess::Core {
 public:
  Core(const Space& space, GaussianProcessOptions options, uint64_t seed)
      : coordinates_(space),
        options_(with_defaults(options, space.size())),
        cover_(space, seed),
        main_(0, 0, space.size()),
        metric_(Eigen::MatrixXd::Identity(coordinates_.size(), coordinates_.size())) {}

  Proposal ask(const Population& population, CounterRng& random) {
    const uint32_t index = proposals_++;
    const bool covers = known_.size() + in_flight_.size() - main_.begin < options_.initial || main_.best == nobody;
    const Focus& focus = !covers && aside_ && index % turns != 0 ? *aside_ : main_;
    const Tag tag{.run = focus.run, .generation = covers ? -1 : focus.region.version(), .index = static_cast<int32_t>(index & INT32_MAX)};
    Proposal proposal = covers ? cover_.ask(population, random) : Proposal{.values = coordinates_.values_of(modelled(focus, random))};
    proposal.tag = tag;
    in_flight_.push_back({proposal, coordinates_.position_of(proposal.values)});
    return proposal;
  }

  void tell(const Individual& individual) {
    if (individual.state == TrialState::running) return;
    const size_t answered = in_flight_.size();
    const auto found = std::ranges::find_if(in_flight_, [&](const InFlight& each) { return answers(individual, each.proposal); });
    const bool own = found != in_flight_.end();
    if (own) in_flight_.erase(found);
    known_.push_back({coordinates_.position_of(individual.values), individual.standing()});
    learn(main_, own, individual.tag, answered);
    if (aside_ && !is_exhausted(known_.back().position)) learn(*aside_, own, individual.tag, answered);
    if (main_.region.side() < options_.collapsed) restart();
  }

  int32_t restarts() const noexcept { return restarts_; }
  double side() const noexcept { return main_.region.side(); }

 private:
  static constexpr size_t nobody = static_cast<size_t>(-1);
  struct Known {
    VectorXd position;
    Standing standing;
  };
  struct InFlight {
    Proposal proposal;
    VectorXd position;
  };
  /// A trial around which the search looks for better ones, and its trust region.
  struct Focus {
    Focus(int32_t which, size_t since, size_t parameters) : run(which), begin(since), region(parameters) {}
    int32_t run;
    size_t begin;  // index in `known_`
    TrustRegion region;
    size_t best = nobody;  // index of the best trial since then
  };
  /// A fit of metric and parameters in progress. With many trials it takes several proposals.
  struct Fit {
    Eigen::MatrixXd metric;
    std::optional<GpFit> parameters = {};
    double scale = 0;  // scale of its frame
    size_t known = 0;  // number of trials when it began
  };

  void restart() {
    ++restarts_;
    main_ = Focus(++runs_, known_.size(), coordinates_.groups());
    aside_.reset();
    exhausted_.clear();
    fit_.reset();
    metric_.setIdentity();
  }

  /// Learns from the last known trial.
  void learn(Focus& focus, bool own, const Tag& tag, size_t in_flight) {
    const Standing& standing = known_.back().standing;
    const bool is_best = std::isfinite(standing.rank_value()) && (focus.best == nobody || standing < known_[focus.best].standing);
    const bool improves = is_best && (focus.best == nobody || gain(known_[focus.best].standing, standing) > significant_improvement * spread_);
    if (is_best) focus.best = known_.size() - 1;
    if (own && tag.run == focus.run && tag.generation == focus.region.version()) focus.region.count(improves, in_flight);
  }

  bool is_exhausted(const VectorXd& position) const {
    const VectorXd branch = coordinates_.branch(position);
    return std::ranges::any_of(exhausted_, [&](const VectorXd& each) { return each == branch; });
  }

  /// Continues with the best of the other branches; if none is left, reopens all branches.
  void exhaust(const VectorXd& position) {
    exhausted_.push_back(coordinates_.branch(position));
    aside_.emplace(++runs_, known_.size(), coordinates_.groups());
    for (size_t i = 0; i < known_.size(); ++i) {
      const Standing& standing = known_[i].standing;
      if (!std::isfinite(standing.rank_value()) || is_exhausted(known_[i].position)) continue;
      if (aside_->best == nobody || standing < known_[aside_->best].standing) aside_->best = i;
    }
    if (aside_->best != nobody) return;
    aside_.reset();
    exhausted_.clear();
  }

  /// The trials nearest to the best one: all in the neighbourhood, and at least slightly more than a quadratic function has coefficients. At most
  /// options_.trials.
  std::vector<size_t> neighbours(const Focus& focus) const {
    std::vector<std::pair<double, size_t>> all;
    for (size_t i = 0; i < known_.size(); ++i) {
      all.emplace_back(coordinates_.length(metric_ * (known_[i].position - known_[focus.best].position)), i);
    }
    std::ranges::sort(all);
    const auto d = static_cast<size_t>(coordinates_.size());
    size_t n = std::max((d + 1) * (d + 2) / 2 + 2 * d, options_.initial);
    while (n < all.size() && all[n].first <= neighbourhood * focus.region.side()) ++n;
    n = std::min({n, options_.trials, all.size()});
    std::vector<size_t> chosen;
    for (size_t i = 0; i < n; ++i) chosen.push_back(all[i].second);
    // Several trials may share the best one's position: keep the best itself.
    if (std::ranges::find(chosen, focus.best) == chosen.end()) chosen.back() = focus.best;
    return chosen;
  }

  VectorXd modelled(const Focus& focus, CounterRng& random) {
    const bool is_aside = &focus != &main_;
    const VectorXd& best_position = known_[focus.best].position;
    const std::vector<size_t> chosen = neighbours(focus);
    const auto n = static_cast<Index>(chosen.size());
    Eigen::MatrixXd steps(coordinates_.size(), n);  // differences from the best one
    std::vector<Standing> standings;
    for (size_t i = 0; i < chosen.size(); ++i) {
      steps.col(static_cast<Index>(i)) = known_[chosen[i]].position - best_position;
      standings.push_back(known_[chosen[i]].standing);
    }
    const std::vector<double> losses = merits(standings);
    const VectorXd warped = warped_losses(losses);
    spread_ = spread_of(losses);
    ModelFrame frame = frame_around(best_position, steps, metric_);
    if (!fit_ && is_fit_due(frame)) begin_fit(steps, warped, frame, focus.region.side());
    if (fit_ && go_on_with_fit()) frame = frame_around(best_position, steps, metric_);
    const Eigen::MatrixXd positions = frame.in * steps;
    GpRegression model(positions, warped, *parameters_, coordinates_.group());
    while (!model.is_valid()) {
      parameters_->logs[parameters_->groups() + 2] += std::log(10);
      model = GpRegression(positions, warped, *parameters_, coordinates_.group());
    }
    VectorXd means;
    VectorXd variances;
    model.at(positions, means, variances);
    Index least = 0;
    double best = infinity;
    for (Index i = 0; i < n; ++i) {
      if (means[i] >= best || (is_aside && is_exhausted(known_[chosen[static_cast<size_t>(i)]].position))) continue;
      best = means[i];
      least = i;
    }
    for (const InFlight& each : in_flight_) model.believe(frame.inside(each.position));
    const VectorXd centre = known_[chosen[static_cast<size_t>(least)]].position;
    const VectorXd half = half_widths(frame, focus.region.side());
    const auto is_taken = [&](const VectorXd& position) {
      return (is_aside && is_exhausted(position)) || std::ranges::any_of(known_, [&](const Known& each) { return each.position == position; }) ||
             std::ranges::any_of(in_flight_, [&](const InFlight& each) {
               return coordinates_.are_near(frame.inside(each.position), frame.inside(position), min_proposal_distance * half);
             });
    };
    const Promising found = most_promising({coordinates_, model, frame, centre, half, options_.candidates, is_taken}, best, random);
    const bool exhausts = std::exp(found.log_improvement) < worthwhile * spread_of({warped.begin(), warped.end()});
    if (exhausts && coordinates_.has_branches() && is_aside == aside_.has_value()) exhaust(centre);
    return found.position;
  }

  /// Scales the frame so that the farthest of `steps` has length 1/2.
  ModelFrame frame_around(const VectorXd& centre, const Eigen::MatrixXd& steps, const Eigen::MatrixXd& metric) const {
    double farthest = 0;
    for (Index i = 0; i < steps.cols(); ++i) farthest = std::max(farthest, coordinates_.length(metric * steps.col(i)));
    VectorXd scale = VectorXd::Ones(coordinates_.size());
    for (Index d = 0; d < scale.size(); ++d) scale[d] = coordinates_.is_smooth(d) && farthest > 0 ? 2 * farthest : 1;
    const Eigen::MatrixXd in = scale.cwiseInverse().asDiagonal() * metric;
    return {centre, in, inverse_of(in), farthest > 0 ? 2 * farthest : 1};
  }

  /// A metric from the model's curvature over the box.
  Eigen::MatrixXd turned(const GpRegression& model, const ModelFrame& frame, double side) const {
    const VectorXd half = half_widths(frame, side);
    const Index n = half.size();
    Eigen::MatrixXd curvature(n, n);
    VectorXd up;
    VectorXd down;
    VectorXd unused;
    for (Index d = 0; d < n; ++d) {
      const double h = std::min(half[d], 0.25);
      model.at(VectorXd(h * VectorXd::Unit(n, d)), up, unused);
      model.at(VectorXd(-h * VectorXd::Unit(n, d)), down, unused);
      curvature.col(d) = (up - down) / (2 * h);
    }
    return metric_of(frame.in.transpose() * ((curvature + curvature.transpose()) / 2) * frame.in, coordinates_.mixable());
  }

  /// Replaces the lengths of mixable coordinates by their mean, because the axes have changed.
  GpParameters with_mean_lengths(GpParameters parameters) const {
    const VectorXd& mixable = coordinates_.mixable();
    const auto log_of = [&](Index d) -> double& { return parameters.logs[coordinates_.group()[static_cast<size_t>(d)]]; };
    double mean = 0;
    for (Index d = 0; d < mixable.size(); ++d) mean += mixable[d] * log_of(d) / mixable.sum();
    for (Index d = 0; d < mixable.size(); ++d) {
      if (mixable[d] == 1) log_of(d) = mean;
    }
    return parameters;
  }

  /// The difference between the median and the least loss.
  static double spread_of(std::vector<double> losses) {
    std::ranges::sort(losses);
    const double median = losses[losses.size() / 2];
    return std::isfinite(median) ? median - losses.front() : 0;
  }

  bool is_fit_due(const ModelFrame& frame) const {
    const double scale = frame.scale;
    return !parameters_ || known_.size() >= fitted_with_ + std::max<size_t>(1, fitted_trials_ / 10) || scale > rescaled * fitted_scale_ ||
           scale * rescaled < fitted_scale_;
  }

  /// Begins a fit of the metric, and of the parameters in that metric.
  void begin_fit(const Eigen::MatrixXd& steps, const VectorXd& warped, const ModelFrame& frame, double side) {
    fit_.emplace(Fit{.metric = metric_});
    std::vector<GpParameters> starts;
    if (parameters_) {
      starts.push_back(*parameters_);
      const GpRegression model(frame.in * steps, warped, *parameters_, coordinates_.group());
      if (model.is_valid()) {
        fit_->metric = turned(model, frame, side);
        starts.back() = with_mean_lengths(*parameters_);
      }
    }
    // The likelihood can have two maxima, because waves and noise can explain the same data. Try a start for both.
    if (fits_++ % fits_between_starts == 0) {
      for (const double noise : {1e-4, 0.3}) starts.push_back(first_parameters(coordinates_.groups(), coordinates_.size(), noise));
    }
    const ModelFrame turned_frame = frame_around(frame.centre, steps, fit_->metric);
    fit_->scale = turned_frame.scale;
    fit_->known = known_.size();
    const Index n = parameters_ ? steps.cols() : std::min(steps.cols(), trials_at_first);
    fit_->parameters.emplace(turned_frame.in * steps.leftCols(n), warped.head(n), coordinates_.group(), starts,
                             parameters_ ? later_iterations : first_iterations);
  }

  /// Continues the fit within the time limit of a proposal; without parameters there is no limit. @return whether it is complete
  bool go_on_with_fit() {
    GpFit& fit = *fit_->parameters;
    const double share = cubes_at_a_time / std::pow(static_cast<double>(fit.size()), 3);
    fit.go_on(parameters_ ? static_cast<int>(std::clamp(share, 1.0, 1e6)) : std::numeric_limits<int>::max());
    if (!fit.has_ended()) return false;
    metric_ = fit_->metric;
    parameters_ = fit.found();
    fitted_with_ = fit_->known;
    fitted_trials_ = static_cast<size_t>(fit.size());
    fitted_scale_ = fit_->scale;
    fit_.reset();
    return true;
  }

  /// Half-widths of the box in the frame. Its sides are proportional to the lengths; their geometric mean is the side of the region.
  VectorXd half_widths(const ModelFrame& frame, double side) const {
    VectorXd logs(coordinates_.size());
    for (Index d = 0; d < logs.size(); ++d) logs[d] = parameters_->logs[coordinates_.group()[static_cast<size_t>(d)]];
    logs.array() -= logs.mean();
    const VectorXd stretched = logs.array().exp().max(1 / max_stretched).min(max_stretched);
    // The metric preserves volumes, so a unit of the frame is frame.scale in the cube.
    return stretched * side / 2 / frame.scale;
  }

  GpCoordinates coordinates_;
  GaussianProcessOptions options_;
  Sobol cover_;
  Focus main_;
  std::optional<Focus> aside_;       // search in branches that are not exhausted, if there is one
  std::vector<VectorXd> exhausted_;  // exhausted branches
  Eigen::MatrixXd metric_;           // multiplied with differences of positions before their length is computed
  std::vector<Known> known_;
  std::vector<InFlight> in_flight_;
  double spread_ = 0;  // spread of the losses in the model
  std::optional<GpParameters> parameters_;
  std::optional<Fit> fit_;
  size_t fitted_with_ = 0;    // number of known trials at the last fit
  size_t fitted_trials_ = 0;  // number of trials in the model of that fit
  double fitted_scale_ = 0;
  size_t fits_ = 0;
  int32_t runs_ = 0;
  int32_t restarts_ = 0;
  uint32_t proposals_ = 0;
};

GaussianProcess::GaussianProcess(const Space& space, GaussianProcessOptions options, uint64_t seed) {
  options.validate();
  expect_few_dimensions(space, 500, "a Gaussian process");
  core_ = std::make_unique<Core>(space, options, seed);
}

GaussianProcess::~GaussianProcess() = default;

Proposal GaussianProcess::ask(const Population& population, CounterRng& random) { return core_->ask(population, random); }

void GaussianProcess::tell(const Individual& individual) { core_->tell(individual); }

int32_t GaussianProcess::restarts() const noexcept { return core_->restarts(); }

double GaussianProcess::side() const noexcept { return core_->side(); }

}  // namespace tw::search
