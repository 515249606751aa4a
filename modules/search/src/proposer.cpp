// SPDX-License-Identifier: Apache-2.0
#include "proposer.hpp"

#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>
#include <tw/evolution/automatic.hpp>
#include <tw/evolution/distinct.hpp>
#include <tw/evolution/sampling.hpp>
#include <utility>

namespace tw::search {
namespace {

Proposer chosen(const SearchOptions& options, const Seat& seat) {
  if (options.propagator) {
    auto propagator = options.propagator(seat);
    TW_EXPECTS(propagator != nullptr, "propagator gave none for worker ", seat.worker, " of island ", seat.island);
    return {std::move(propagator), "the propagator that was asked for"};
  }
  if (std::holds_alternative<PopulationTrainingOptions>(options.scheduler)) {
    return {std::make_unique<Sobol>(seat.space, seat.seed, Share{.first = seat.worker, .stride = seat.workers}),
            "sobol: all members of a population begin before one has ended"};
  }
  const Choice choice = choose(seat.space, seat.evaluations > 0 ? seat.evaluations : std::numeric_limits<int64_t>::max(), seat.objectives);
  return {automatic(seat.space, seat.evaluations, seat.seed, seat.worker, seat.workers, seat.objectives),
          concat(name_of(choice.method), ": ", choice.reason)};
}

}  // namespace

Proposer proposer_of(const SearchOptions& options, const Seat& seat) {
  Proposer proposer = chosen(options, seat);
  if (!options.repeats) proposer.propagator = std::make_unique<Distinct>(seat.space, std::move(proposer.propagator));
  return proposer;
}

}  // namespace tw::search
