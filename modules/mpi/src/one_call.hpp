// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::mpi {

/// Whether one MPI call may carry `part` elements for each of `ranks` ranks. The call's count is `part`, but MPIs multiply it by the number of ranks
/// in an int.
/// @param largest number of elements that a call may count.
constexpr bool fits_one_call(int64_t part, int ranks, int64_t largest) { return part <= largest / ranks; }

}  // namespace tw::mpi
