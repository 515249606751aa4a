// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <tw/evolution/breeding.hpp>
#include <tw/evolution/cma_es.hpp>
#include <tw/evolution/quadratic_trust_region.hpp>

namespace tw::search {

class SeparableSearch;

/// A trust region first, which needs few evaluations where losses are smooth; then CMA-ES with restarts, which needs no smoothness: it begins at the
/// best that there is, with a tenth of the ranges as its deviation; and at last breeding, too, which finds its way where minima are many. Of the
/// first 150 D proposals 95 % are the region's, and a tenth of later ones, for places that are new. From 1000 D proposals on, three quarters of the
/// others are bred, of all individuals. Once the first region has collapsed, or 150 D have been proposed, 2 D + 1 tell whether the loss is a sum of
/// functions of one parameter each (SeparableSearch); if it is, nine tenths of what follows move one parameter alone.
///
/// Region and CMA-ES are told of their own alone. Tags have runs of CMA-ES, -1 for what is bred or moves one parameter, and less for the region.
class Hybrid final : public Propagator {
 public:
  /// @param space borrowed. @param share which of those that search together, with one seed, this is. @throws ContractError for a wrong share,
  /// or more than 1,000 dimensions
  Hybrid(const Space& space, uint64_t seed, Share share = {});

  ~Hybrid() override;

  Proposal ask(const Population& population, CounterRng& random) override;
  void tell(const Individual& individual) override;

 private:
  const Space& space_;
  uint64_t seed_;
  Share share_;
  QuadraticTrustRegion region_;
  std::unique_ptr<SeparableSearch> separable_;
  Breeder breeder_;
  std::optional<CmaEs> cma_es_;  // once it has been asked
  int64_t asked_ = 0;
};

}  // namespace tw::search
