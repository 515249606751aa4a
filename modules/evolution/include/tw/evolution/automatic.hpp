// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/evolution/propagator.hpp>

namespace tw::search {

/// The propagator that suits the space and the budget. @param space borrowed
std::unique_ptr<Propagator> automatic(const Space& space, int64_t evaluations, uint64_t seed, int worker, int workers);

}  // namespace tw::search
