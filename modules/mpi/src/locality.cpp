// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/locality.hpp>

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <sched.h>

#include <memory>
#include <type_traits>

#include "cores.hpp"

namespace tw {

std::optional<cpu_set_t> mpi::cores_near(const std::string& bus) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {};
  const std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)> machine(made, &hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(made) != 0) return {};
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(made, bus.c_str());
  if (device == nullptr) return {};
  cpu_set_t cores;
  CPU_ZERO(&cores);
  hwloc_cpuset_to_glibc_sched_affinity(made, hwloc_get_non_io_ancestor_obj(made, device)->cpuset, &cores, sizeof cores);
  return cores;
}

bool stay_near(const std::string& bus) {
  cpu_set_t usable;
  const std::optional<cpu_set_t> near = mpi::cores_near(bus);
  if (!near || ::sched_getaffinity(0, sizeof usable, &usable) != 0) return true;
  cpu_set_t both;
  CPU_AND(&both, &*near, &usable);
  return CPU_COUNT(&both) > 0 && ::sched_setaffinity(0, sizeof both, &both) == 0;
}

}  // namespace tw
