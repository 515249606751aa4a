// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/automatic.hpp>

#include <algorithm>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/gaussian_process.hpp>
#include <tw/evolution/hybrid.hpp>
#include <tw/evolution/nsga2.hpp>
#include <tw/evolution/sampling.hpp>
#include <tw/evolution/tpe.hpp>

namespace tw::search {
namespace {

constexpr int64_t min_to_learn = 3;          // evaluations per dimension
constexpr int64_t max_dimensions = 200;      // for trust regions and covariance matrices
constexpr int64_t max_for_processes = 300;   // evaluations: the cost of a proposal grows with them
constexpr int64_t max_for_densities = 2000;  // evaluations, for the same reason
constexpr int64_t min_values_of_a_scale = 8;

bool is_scale(const Parameter& p) {
  if (p.kind == Parameter::Kind::categorical) return false;
  return p.kind == Parameter::Kind::real || p.count() >= min_values_of_a_scale;
}

}  // namespace

const char* name_of(Method method) noexcept {
  switch (method) {
    case Method::sobol: return "sobol";
    case Method::genetic: return "genetic";
    case Method::gaussian_process: return "gaussian_process";
    case Method::tpe: return "tpe";
    case Method::nsga2: return "nsga2";
    case Method::hybrid: return "hybrid";
  }
  return "?";
}

Choice choose(const Space& space, int64_t evaluations, size_t objectives) {
  TW_EXPECTS(evaluations >= 1, "a search needs at least 1 evaluation, got ", evaluations);
  TW_EXPECTS(objectives >= 1, "a search needs at least 1 objective, got 0");
  if (objectives > 1) return {.method = Method::nsga2, .reason = concat("there are ", objectives, " objectives: fronts of trials are recombined")};
  const auto dimensions = static_cast<int64_t>(space.dimensions());
  const auto parameters = static_cast<int64_t>(space.size());
  const int64_t scales = std::ranges::count_if(space.parameters(), is_scale);
  const int64_t conditional = std::ranges::count_if(space.parameters(), [](const Parameter& p) { return !p.parent.empty(); });
  const bool are_numbers = 2 * scales >= parameters && 4 * conditional < parameters && dimensions <= max_dimensions;
  if (evaluations < min_to_learn * dimensions) {
    return {.method = Method::sobol,
            .reason = concat("with ", evaluations, " evaluations in ", dimensions,
                             " dimensions there is little to learn from: the space is covered evenly")};
  }
  if (are_numbers) {
    return {.method = Method::hybrid,
            .reason = concat(scales, " of ", parameters,
                             " parameters are on a scale: quadratic models of the loss while evaluations are few, and then CMA-ES")};
  }
  const std::string space_is = 2 * scales < parameters         ? concat("only ", scales, " of ", parameters, " parameters are on a scale")
                               : 4 * conditional >= parameters ? concat(conditional, " of ", parameters, " parameters have conditions")
                                                               : concat("covariances cannot be learnt in ", dimensions, " dimensions");
  if (evaluations <= max_for_processes && dimensions <= max_dimensions) {
    return {.method = Method::gaussian_process, .reason = space_is + ": a Gaussian process learns which configurations are similar"};
  }
  if (evaluations <= max_for_densities && dimensions <= max_dimensions) {
    return {.method = Method::tpe, .reason = space_is + ": densities of good and of bad configurations are compared"};
  }
  return {.method = Method::genetic, .reason = space_is + ": configurations are recombined"};
}

std::unique_ptr<Propagator> automatic(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers, size_t objectives) {
  const Share share{.first = worker, .stride = workers};
  switch (choose(space, evaluations > 0 ? evaluations : std::numeric_limits<int64_t>::max(), objectives).method) {
    case Method::sobol: return std::make_unique<Sobol>(space, seed, share);
    case Method::genetic: return std::make_unique<Breeder>(space, genetic_within(evaluations));
    case Method::gaussian_process:
      return std::make_unique<GaussianProcess>(space, GaussianProcessOptions{}, derived_seed(seed, static_cast<uint64_t>(worker)));
    case Method::tpe: return std::make_unique<Tpe>(space);
    case Method::nsga2: return std::make_unique<Nsga2>(space, Nsga2Options::within(evaluations));
    case Method::hybrid: return std::make_unique<Hybrid>(space, seed, share);
  }
  return nullptr;
}

}  // namespace tw::search
