// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <tw/evolution/propagator.hpp>
#include <tw/search/options.hpp>

namespace tw::search {

/// The propagator of a worker.
struct Proposer {
  std::unique_ptr<Propagator> propagator;
  std::string about;  ///< the propagator and the reason for choosing it; for display only
};

/// The propagator of the options or, without one, the default for the search. @throws ContractError if `options.propagator` returns none
Proposer proposer_of(const SearchOptions& options, const WorkerContext& context);

}  // namespace tw::search
