// SPDX-License-Identifier: Apache-2.0
#include <tw/evolution/automatic.hpp>

#include <algorithm>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/mixture.hpp>
#include <tw/evolution/sampling.hpp>
#include <tw/evolution/sobol_sequence.hpp>

namespace tw::search {
namespace {

constexpr int64_t least_to_learn = 10;         // evaluations for each dimension
constexpr int64_t least_for_covariances = 50;  // the same
constexpr int64_t least_values_of_a_scale = 8;
constexpr double bred = 0.6;  // of a mixture; found by trying 0.4 to 0.7 on functions with many minima

bool is_scale(const Parameter& p) {
  if (p.kind == Parameter::Kind::categorical) return false;
  return p.kind == Parameter::Kind::real || p.count() >= least_values_of_a_scale;
}

}  // namespace

const char* name_of(Method method) noexcept {
  switch (method) {
    case Method::sobol: return "sobol";
    case Method::latin_hypercube: return "latin_hypercube";
    case Method::genetic: return "genetic";
    case Method::mixture: return "mixture";
  }
  return "?";
}

Choice choose(const Space& space, int64_t evaluations) {
  TW_EXPECTS(evaluations >= 1, "a search has one evaluation at least, got ", evaluations);
  const auto dimensions = static_cast<int64_t>(space.dimensions());
  const auto parameters = static_cast<int64_t>(space.size());
  const int64_t scales = std::ranges::count_if(space.parameters(), is_scale);
  const int64_t conditional = std::ranges::count_if(space.parameters(), [](const Parameter& p) { return !p.parent.empty(); });
  if (evaluations < least_to_learn * dimensions) {
    return {.method = space.size() <= SobolSequence::most_dimensions ? Method::sobol : Method::latin_hypercube,
            .reason = concat("with ", evaluations, " evaluations in ", dimensions,
                             " dimensions there is little to learn from: the space is covered evenly")};
  }
  if (2 * scales < parameters) {
    return {.method = Method::genetic, .reason = concat("only ", scales, " of ", parameters, " parameters are on a scale: choices are recombined")};
  }
  if (4 * conditional >= parameters) {
    return {.method = Method::genetic,
            .reason = concat(conditional, " of ", parameters, " parameters have conditions: configurations are recombined")};
  }
  if (evaluations < least_for_covariances * dimensions) {
    return {.method = Method::genetic,
            .reason = concat("with ", evaluations, " evaluations in ", dimensions,
                             " dimensions covariances cannot be learnt: configurations are recombined")};
  }
  return {.method = Method::mixture,
          .reason = concat(scales, " of ", parameters, " parameters are on a scale, and ", evaluations, " evaluations in ", dimensions,
                           " dimensions are enough to learn how they go together")};
}

std::unique_ptr<Propagator> automatic(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers) {
  const Share share{.first = worker, .stride = workers};
  switch (choose(space, evaluations > 0 ? evaluations : std::numeric_limits<int64_t>::max()).method) {
    case Method::sobol: return std::make_unique<Sobol>(space, seed, share);
    case Method::latin_hypercube: return std::make_unique<LatinHypercube>(space, evaluations, seed, share);
    case Method::genetic: return std::make_unique<Breeder>(space, genetic_within(evaluations));
    case Method::mixture: return std::make_unique<Mixture>(Breeder(space), std::make_unique<CmaEs>(space, CmaOptions{}, seed), bred);
  }
  return nullptr;
}

}  // namespace tw::search
