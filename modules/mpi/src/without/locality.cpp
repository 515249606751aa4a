// SPDX-License-Identifier: Apache-2.0
// Replaces ../locality.cpp in a build without hwloc: finds cores in the kernel's list of hardware threads, and knows nothing about devices.
#include <tw/mpi/locality.hpp>

#include <sched.h>

#include <fstream>
#include <string>

#include "../cores.hpp"

namespace tw {

std::optional<cpu_set_t> mpi::cores_near(const std::string&) { return {}; }

std::vector<int> mpi::find_lowest_threads() {
  std::vector<int> lowest;
  for (int thread = 0; thread < CPU_SETSIZE; ++thread) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(thread) + "/topology/thread_siblings_list");  // such as 3,67 or 6-7
    int first = thread;
    if (!(file >> first)) first = thread;  // offline, or not there
    lowest.push_back(first);
  }
  return lowest;
}

bool stay_near(const std::string&) { return true; }

}  // namespace tw
