// SPDX-License-Identifier: Apache-2.0
#include "cma_restarts.hpp"

#include <algorithm>
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

CmaRunNumber CmaRestarts::next(CmaRunNumber ended, int64_t evaluations) {
  (ended.large ? large_ : small_) += evaluations;
  if (ended.large) last_large_ = evaluations;
  CmaRunNumber run{ended.restart + 1, ended.doublings, policy_ == CmaOptions::Restarts::ipop || large_ <= small_};
  if (run.large) run.doublings = std::min(run.doublings + 1, 9);
  return run;
}

int64_t CmaRestarts::limit(CmaRunNumber run) const {
  return run.large || run.restart == 0 || last_large_ == 0 ? std::numeric_limits<int64_t>::max() : std::max<int64_t>(1, last_large_ / 2);
}

}  // namespace tw::search
