// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/facade.hpp>

namespace tw::search {

/// Filters another propagator's proposals: skips configurations that were tried before or that this worker has in flight, while new ones are left.
/// Use it for noise-free losses.
///
/// A configuration is known if it was proposed or reported and all its existing parameters have finitely many values. If the other propagator repeats
/// a known configuration, it receives the known loss as if the configuration had been evaluated again, as soon as the loss is available. Then it is
/// asked again, up to ten times. If it still repeats a known configuration, the nearest unknown feasible one is proposed instead, found by changing
/// one parameter at a time. A simplex or a swarm thus continues as usual, and evaluations are spent on new configurations. If everything is known, or
/// none of the 2,000 nearest configurations is new, the last proposal is repeated.
///
/// If the space has a continuous parameter that always exists, all proposals are passed on unchanged. Proposals carry the other propagator's tags.
/// Cost: O(D) for each proposal and result, in addition to the other propagator's, until few new configurations are left; O(D) memory per
/// configuration.
class Distinct final : public Facade {
 public:
  /// @param space copied. @throws ContractError if `other` is null
  Distinct(const Space& space, std::unique_ptr<Propagator> other);
};

}  // namespace tw::search
