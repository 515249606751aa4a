// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/algorithms/plan.hpp>

namespace tw::algorithms {

/// The cost of a collective on the busiest rank, by formula, without making a plan. Amounts are in blocks of the tensor: of an all-gather's output,
/// of a reduce-scatter's input; an all-to-all has one block per rank.
struct Cost {
  int64_t rounds = 0;    ///< consecutive messages until the last rank is done
  int64_t blocks = 1;    ///< number of blocks that the tensor is cut into
  int64_t sent = 0;      ///< blocks
  int64_t received = 0;  ///< blocks
  int64_t reduced = 0;   ///< blocks
  bool operator==(const Cost&) const = default;
};

/// @param task its rank is ignored
Cost cost_of(Algorithm algorithm, const Task& task);

}  // namespace tw::algorithms
