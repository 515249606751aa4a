// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/facade.hpp>

namespace tw::search {

/// Another propagator's proposals, without those that were tried before or are in flight from here, while others are left. For losses without noise.
///
/// A configuration is known if all its existing parameters have finitely many values, and was proposed or reported. If the other propagator repeats
/// one, it receives that one's loss - at once, or when it is known - as if it had been evaluated again, and is asked again, up to ten times. Then
/// comes what is nearest to its last proposal, by steps of one parameter, unknown and feasible. So a simplex or a swarm goes on as it would, and
/// evaluations are spent on what is new. Where all is known, or nothing new is near (2,000 places), its last proposal is repeated.
///
/// In a space with a parameter of a continuum that always exists, it is the other propagator. Proposals have its tags.
/// Cost: O(D) for each proposal and result, in addition to the other propagator's, until little is left; O(D) of memory for each configuration.
class Distinct final : public Facade {
 public:
  /// @param space borrowed. @throws ContractError without a propagator
  Distinct(const Space& space, std::unique_ptr<Propagator> other);
};

}  // namespace tw::search
