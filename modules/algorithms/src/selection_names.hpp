// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <tw/base/call.hpp>

namespace tw::algorithms {

/// The collectives for which a backend is selected.
inline constexpr std::array selected_collectives{Collective::broadcast, Collective::allreduce,      Collective::reduce,
                                                 Collective::allgather, Collective::reduce_scatter, Collective::alltoall};

}  // namespace tw::algorithms
