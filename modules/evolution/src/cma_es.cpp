// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/cma_es.hpp>

#include <cmath>
#include <tw/base/contract.hpp>

#include "cma_restarts.hpp"
#include "cma_run.hpp"
#include "dimension_limit.hpp"

namespace tw::search {

void visit(CmaOptions& options, OptionVisitor& visitor) {
  using Restarts = CmaOptions::Restarts;
  const std::vector<std::pair<std::string, Restarts>> restarts{{"none", Restarts::none}, {"ipop", Restarts::ipop}, {"bipop", Restarts::bipop}};
  visitor.field("sigma", options.sigma, {.least = 0, .most = 1, .excludes_least = true},
                {.meaning = "initial standard deviation, as a share of each range"});
  visitor.field("lambda", options.lambda, at_least(0, 1 << 20), {.meaning = "samples per generation; 0: 4 + floor(3 ln n) for n dimensions"});
  visitor.field("active", options.active, {.meaning = "whether to learn from bad samples as well"});
  visitor.field("restarts", options.restarts, restarts, {.meaning = "kind of restarts after a run has converged"});
  visitor.field("tol_fun", options.tol_fun, {.least = 0, .excludes_most = true}, {.meaning = "difference of losses below which a run ends"});
  visitor.field("tol_x", options.tol_x, {.least = 0, .excludes_most = true},
                {.meaning = "standard deviation, as a share of the ranges, below which a run ends"});
}

void CmaOptions::validate(const Space& space) const {
  expect_none(out_of_bounds("cma_es", *this));
  expect_few_dimensions(space, 2000, "CMA-ES");
  TW_EXPECTS(lambda != 1, "cma_es.lambda must be at least 2, or 0 for the default, got ", lambda);
  TW_EXPECTS(start.empty() || space.contains(start), "cma_es.start is not a valid configuration of the space");
}

class CmaEs::Core {
 public:
  Core(const Space& space, CmaOptions options, uint64_t seed)
      : coordinates_(space),
        options_(std::move(options)),
        seed_(seed),
        lambda_(options_.lambda > 0 ? options_.lambda : default_lambda(coordinates_.size())),
        restarts_(options_.restarts),
        run_(begin()) {}

  Proposal ask(CounterRng& random) { return run_.ask(number_.packed(), random); }

  void tell(const Individual& individual) {
    if (individual.state == TrialState::running || ended_) return;
    if (individual.tag.run != number_.packed() && !joins(individual)) return;
    const CmaStop stop = run_.tell(individual);
    if (stop == CmaStop::none && run_.evaluations() < restarts_.limit(number_)) return;
    restarts_.count(number_, run_.evaluations());
    ended_ = options_.restarts == CmaOptions::Restarts::none;
    if (!ended_) go_on_with(restarts_.after(number_));
  }

  State state() const {
    const CmaDistribution& d = run_.distribution();
    return {number_.restart, d.parameters().lambda, d.generation(), d.sigma(), d.deviations().maxCoeff(), d.condition(), ended_};
  }

 private:
  /// Switches to this individual's run if it is a later run of a worker with the same runs. Other islands have other runs.
  bool joins(const Individual& individual) {
    const CmaRunNumber number = CmaRunNumber::unpacked(individual.tag.run);
    if (options_.restarts == CmaOptions::Restarts::none || individual.moves > 0 || individual.tag.run < number_.packed() || !number.is_possible())
      return false;
    restarts_.count(number_, run_.evaluations());
    go_on_with(number);
    return true;
  }

  void go_on_with(CmaRunNumber number) {
    number_ = number;
    run_ = begin();
  }

  CmaRun begin() const {
    CmaRunSettings settings = settings_of(number_, lambda_, options_.sigma, seed_);
    Eigen::VectorXd mean = coordinates_.random_start(settings.random);
    if (number_.restart == 0 && !options_.start.empty()) coordinates_.position_of(options_.start, mean);
    const CmaParameters parameters(coordinates_.size(), settings.lambda, options_.active);
    return {coordinates_, std::move(mean), settings.sigma, parameters, options_.tol_fun, options_.tol_x};
  }

  CmaCoordinates coordinates_;
  CmaOptions options_;
  uint64_t seed_;
  size_t lambda_;  // lambda of the first run
  CmaRestarts restarts_;
  CmaRunNumber number_;
  CmaRun run_;
  bool ended_ = false;
};

CmaEs::CmaEs(const Space& space, CmaOptions options, uint64_t seed) {
  options.validate(space);
  core_ = std::make_unique<Core>(space, std::move(options), seed);
}

CmaEs::~CmaEs() = default;

Proposal CmaEs::ask(const Population&, CounterRng& random) { return core_->ask(random); }

void CmaEs::tell(const Individual& individual) { core_->tell(individual); }

CmaEs::State CmaEs::state() const { return core_->state(); }

}  // namespace tw::search
