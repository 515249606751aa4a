// SPDX-License-Identifier: Apache-2.0
#include "cma_restarts.hpp"

#include <cmath>
#include <tw/evolution/draws.hpp>

namespace tw::search {

CmaRunSettings settings_of(CmaRunNumber run, size_t lambda, double sigma, uint64_t seed) {
  CmaRunSettings settings{lambda, sigma, CounterRng(seed, static_cast<uint64_t>(run.packed()))};
  const double most = std::exp2(run.doublings);
  if (run.large) {
    settings.lambda = lambda << run.doublings;
  } else if (run.restart > 0) {
    const double u = uniform(settings.random);
    settings.lambda = std::max(lambda, static_cast<size_t>(static_cast<double>(lambda) * std::pow(most / 2, u * u)));
    settings.sigma = sigma * std::pow(10, -2 * uniform(settings.random));
  }
  return settings;
}

void CmaRestarts::count(CmaRunNumber run, int64_t evaluations) {
  (run.large ? large_ : small_) += evaluations;
  if (run.large) last_large_ = evaluations;
}

CmaRunNumber CmaRestarts::after(CmaRunNumber run) const {
  CmaRunNumber next{run.restart + 1, run.doublings, policy_ == CmaOptions::Restarts::ipop || large_ <= small_};
  if (next.large) next.doublings = std::min(next.doublings + 1, CmaRunNumber::max_doublings);
  return next;
}

int64_t CmaRestarts::limit(CmaRunNumber run) const {
  return run.large || run.restart == 0 || last_large_ == 0 ? std::numeric_limits<int64_t>::max() : std::max<int64_t>(1, last_large_ / 2);
}

}  // namespace tw::search
