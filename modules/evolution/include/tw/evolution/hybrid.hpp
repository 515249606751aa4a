// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/quadratic_trust_region.hpp>

namespace tw::search {

/// A trust region first, which needs few evaluations where losses are smooth; then CMA-ES with restarts, which needs no smoothness: it begins at the
/// best known point, with a tenth of the ranges as its deviation; and at last genetic search, too, which succeeds where minima are many. Of the
/// first 150 D proposals 95 % are the region's, and a tenth of later ones, for places that are new. From 1000 D proposals on, three quarters of the
/// others come from genetic search over all individuals.
///
/// Region and CMA-ES receive only their own individuals. Tags have runs of CMA-ES, -1 for genetic proposals, and lower values for the region.
class Hybrid final : public Propagator {
 public:
  /// @param space borrowed. @param share which of those that search together, with one seed, this is. @throws ContractError for a wrong share,
  /// or more than 1,000 dimensions
  Hybrid(const Space& space, uint64_t seed, Share share = {});

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

 private:
  const Space& space_;
  uint64_t seed_;
  Share share_;
  QuadraticTrustRegion region_;
  Breeder breeder_;
  std::optional<CmaEs> cma_es_;  // once it has been asked
  int64_t asked_ = 0;
};

}  // namespace tw::search
