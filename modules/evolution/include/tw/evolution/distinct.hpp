// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/facade.hpp>

namespace tw::search {

/// Filters another propagator's proposals: skips configurations already tried or in flight from here, as long as new ones are left. For noise-free
/// losses.
///
/// A configuration is known if it was proposed or reported and all its existing parameters have finitely many values. If the other propagator repeats
/// a known one, it receives that loss as if it had been evaluated again, as soon as it is available, and is asked again, up to ten times. After that,
/// the nearest unknown feasible configuration to its last proposal is proposed, found by changing one parameter at a time. A simplex or a swarm thus
/// continues as usual, and evaluations are spent on new configurations. If everything is known, or none of the 2,000 nearest places is new, the last
/// proposal is repeated.
///
/// If the space has a continuous parameter that always exists, all proposals are passed on unchanged. Proposals carry the other propagator's tags.
/// Cost: O(D) for each proposal and result, in addition to the other propagator's, until few new configurations are left; O(D) memory per
/// configuration.
class Distinct final : public Facade {
 public:
  /// @param space copied. @throws ContractError without a propagator
  Distinct(const Space& space, std::unique_ptr<Propagator> other);
};

}  // namespace tw::search
