// SPDX-License-Identifier: Apache-2.0
#include "cores.hpp"

#include <algorithm>

namespace tw::mpi {

int share_of_cores(std::span<const cpu_set_t> affinities, size_t own, int cores_of_node) {
  const cpu_set_t& mine = affinities[own];
  const auto sharing =
      static_cast<int>(std::count_if(affinities.begin(), affinities.end(), [&](const cpu_set_t& theirs) { return CPU_EQUAL(&theirs, &mine) != 0; }));
  const int usable = CPU_COUNT(&mine) > 0 ? CPU_COUNT(&mine) : cores_of_node;
  return std::max(1, usable / sharing);  // NOLINT(clang-analyzer-core.DivideZero): this rank is one of them
}

}  // namespace tw::mpi
