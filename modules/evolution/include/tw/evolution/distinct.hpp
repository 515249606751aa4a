// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/facade.hpp>

namespace tw::search {

/// Another propagator's proposals, without those that were tried before or are in flight from here, while others are left. For losses without noise.
///
/// A configuration is known if all that exists in it has a number of values, and it was proposed or told. When the other propagator proposes a known
/// one, it is told the loss of that - at once, or when it is known - as if it had been evaluated again, and is asked once more, up to ten times. Then
/// comes what is nearest to its last proposal, by steps of one parameter, unknown and feasible. So a simplex or a swarm goes on as it would, and
/// evaluations are spent on what is new. Where all is known, or nothing new is near (2,000 places), its last proposal is repeated.
///
/// In a space with a parameter of a continuum that always exists, it is the other propagator. Proposals have its tags.
/// Cost: O(D) for each ask and tell, beside its own, until little is left; O(D) of memory for each configuration.
class Distinct final : public Facade {
 public:
  /// @param space borrowed. @throws ContractError without a propagator
  Distinct(const Space& space, std::unique_ptr<Propagator> other);
};

}  // namespace tw::search
