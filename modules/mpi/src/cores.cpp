// SPDX-License-Identifier: Apache-2.0
#include "cores.hpp"

#include <algorithm>
#include <tw/mpi/locality.hpp>

namespace tw {

const std::vector<int>& mpi::lowest_threads() {
  static const std::vector<int> found = find_lowest_threads();  // reading the machine takes milliseconds
  return found;
}

cpu_set_t mpi::cores_of(const cpu_set_t& threads, std::span<const int> lowest) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int thread = 0; thread < CPU_SETSIZE; ++thread) {
    if (!CPU_ISSET(thread, &threads)) continue;
    CPU_SET(static_cast<size_t>(thread) < lowest.size() ? lowest[static_cast<size_t>(thread)] : thread, &cores);
  }
  return cores;
}

int mpi::share_of_cores(std::span<const cpu_set_t> affinities, size_t own, int cores_of_node) {
  const cpu_set_t& mine = affinities[own];
  const auto sharing =
      static_cast<int>(std::count_if(affinities.begin(), affinities.end(), [&](const cpu_set_t& theirs) { return CPU_EQUAL(&theirs, &mine) != 0; }));
  const int usable = CPU_COUNT(&mine) > 0 ? CPU_COUNT(&mine) : cores_of_node;
  return std::max(1, usable / sharing);  // NOLINT(clang-analyzer-core.DivideZero): this rank is one of them
}

int cores_here() {
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0) return 1;
  const cpu_set_t cores = mpi::cores_of(mine, mpi::lowest_threads());
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace tw
