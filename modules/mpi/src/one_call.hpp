// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tw::mpi {

/// Whether one MPI call may take a part of `part` elements for each of `ranks` ranks. It is told the part, but MPIs multiply it by the ranks in an
/// int.
/// @param largest elements that a call may count.
constexpr bool fits_one_call(int64_t part, int ranks, int64_t largest) { return part <= largest / ranks; }

}  // namespace tw::mpi
