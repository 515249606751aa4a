// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

/// A propagator with preset options, for configuration files.
struct NamedPropagator {
  const char* name;   ///< "automatic", "cma_es", ...
  const char* about;  ///< a short description
  /// @param space copied. @param evaluations number of evaluations of all workers together; 0: no limit. @param seed the same on all workers.
  /// @param worker index of this worker among the `workers` that search together. @throws ContractError if the propagator does not support this space
  std::unique_ptr<Propagator> (*make)(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers);
};

/// Every named propagator, automatic() first.
std::span<const NamedPropagator> named_propagators();

}  // namespace tw::search
