// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/quadratic_trust_region.hpp>

namespace tw::search {

/// Combines three propagators, in D dimensions. A trust region comes first, since it needs few evaluations when losses are smooth. CMA-ES with
/// restarts follows; it needs no smoothness, and begins at the best known point with a tenth of the ranges as its standard deviation. Genetic search
/// comes last, for losses with many minima. The region makes 95 % of the first 150 * D proposals of all workers, and a tenth of later ones to explore
/// new places. From proposal 1000 * D on, genetic search over all individuals makes three quarters of the others. CMA-ES makes the rest.
///
/// The region and CMA-ES each receive only results of their own kind of proposals, from all workers. The `run` of a tag is the run of CMA-ES, -1 for
/// genetic proposals, or -2 - r for run r of the region.
class Hybrid final : public Propagator {
 public:
  /// @param space copied. @param share identifies this worker among those that search together with the same seed. @throws ContractError for a wrong
  /// share, or more than 1,000 dimensions
  Hybrid(const Space& space, uint64_t seed, Share share = {});

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

 private:
  Space space_;
  uint64_t seed_;
  Share share_;
  QuadraticTrustRegion region_;
  Breeder breeder_;
  std::optional<CmaEs> cma_es_;  // created at its first proposal
  int64_t asked_ = 0;
};

}  // namespace tw::search
