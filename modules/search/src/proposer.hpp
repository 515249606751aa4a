// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <tw/evolution/propagator.hpp>
#include <tw/search/options.hpp>

namespace tw::search {

/// What proposes a worker's trials.
struct Proposer {
  std::unique_ptr<Propagator> propagator;
  std::string about;  ///< which propagator it is, and why; for readers
};

/// The propagator of the options or, without one, the one that suits the search. @throws ContractError if `options.propagator` returns none
Proposer proposer_of(const SearchOptions& options, const WorkerContext& context);

}  // namespace tw::search
