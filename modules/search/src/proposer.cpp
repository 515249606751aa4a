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

Proposer chosen(const SearchOptions& options, const WorkerContext& context) {
  if (options.propagator) {
    auto propagator = options.propagator(context);
    TW_EXPECTS(propagator != nullptr, "SearchOptions::propagator returned no propagator for worker ", context.worker, " of island ", context.island);
    return {std::move(propagator), "the propagator of the options"};
  }
  if (std::holds_alternative<PopulationTrainingOptions>(options.scheduler)) {
    return {std::make_unique<Sobol>(context.space, context.seed, Share{.first = context.worker, .stride = context.workers}),
            "sobol: all members of a population begin before the first one ends"};
  }
  const Choice choice =
      choose(context.space, context.evaluations > 0 ? context.evaluations : std::numeric_limits<int64_t>::max(), context.objectives);
  return {automatic(context.space, context.evaluations, context.seed, context.worker, context.workers, context.objectives),
          concat(name_of(choice.method), ": ", choice.reason)};
}

}  // namespace

Proposer proposer_of(const SearchOptions& options, const WorkerContext& context) {
  Proposer proposer = chosen(options, context);
  if (!options.allow_duplicates) proposer.propagator = std::make_unique<Distinct>(context.space, std::move(proposer.propagator));
  return proposer;
}

}  // namespace tw::search
