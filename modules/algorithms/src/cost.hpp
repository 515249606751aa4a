// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/algorithms/plan.hpp>

namespace tw::algorithms {

/// What a collective takes of the rank that has most to do, by formula: no plan is made. Of `blocks` of the tensor, which an all-gather gives as its
/// output, a reduce-scatter gets as its input, and of which an all-to-all has one for every rank.
struct Cost {
  int64_t rounds = 0;    ///< messages that follow one another from the first to the last rank that is done
  int64_t blocks = 1;    ///< that the tensor is cut into
  int64_t sent = 0;      ///< blocks
  int64_t received = 0;  ///< blocks
  int64_t reduced = 0;   ///< blocks
  bool operator==(const Cost&) const = default;
};

/// @param task its rank is of no account
Cost cost_of(Algorithm algorithm, const Task& task);

}  // namespace tw::algorithms
