// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <tw/evolution/facade.hpp>

namespace tw::search {

/// Filters another propagator's proposals: skips configurations that were tried before or that this worker has in flight, as long as new ones are
/// left. Use it for noise-free losses.
///
/// A configuration is known once it was proposed or reported. This applies only to configurations whose existing parameters all have finitely many
/// values. If the other propagator proposes a known configuration, Distinct reports the known loss to it as soon as the loss is available, as if the
/// configuration had been evaluated again. Distinct then asks it for another proposal, up to ten times. If the last one is known, too, Distinct
/// proposes the nearest unknown feasible configuration instead, found by changing one parameter at a time. A simplex or a swarm thus continues as
/// usual, and evaluations are spent on new configurations. If all configurations are known, or none of the 2,000 nearest is new, the last proposal is
/// repeated.
///
/// If the space has a continuous parameter that always exists, all proposals are passed on unchanged. Proposals carry the other propagator's tags.
/// Cost in addition to the other propagator's: O(D) for each proposal and result with D parameters, until few new configurations are left; O(D)
/// memory per configuration.
class Distinct final : public Facade {
 public:
  /// @param space copied. @throws ContractError if `other` is null
  Distinct(const Space& space, std::unique_ptr<Propagator> other);
};

}  // namespace tw::search
