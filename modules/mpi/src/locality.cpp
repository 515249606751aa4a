// SPDX-License-Identifier: Apache-2.0
#include <tw/mpi/locality.hpp>

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <sched.h>

#include <memory>
#include <type_traits>

#include "cores.hpp"

namespace tw {

namespace {

using Machine = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

// Null if hwloc fails.
Machine find_machine(bool with_devices) {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return {nullptr, &hwloc_topology_destroy};
  Machine machine(made, &hwloc_topology_destroy);
  if (with_devices) hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(made) != 0) machine.reset();
  return machine;
}

}  // namespace

std::optional<cpu_set_t> mpi::cores_near(const std::string& bus) {
  const Machine machine = find_machine(/*with_devices=*/true);
  const hwloc_obj_t device = machine ? hwloc_get_pcidev_by_busidstring(machine.get(), bus.c_str()) : nullptr;
  if (device == nullptr) return {};
  cpu_set_t cores;
  CPU_ZERO(&cores);
  hwloc_cpuset_to_glibc_sched_affinity(machine.get(), hwloc_get_non_io_ancestor_obj(machine.get(), device)->cpuset, &cores, sizeof cores);
  return cores;
}

std::vector<int> mpi::find_lowest_threads() {
  std::vector<int> lowest;
  const Machine machine = find_machine(/*with_devices=*/false);
  if (!machine) return lowest;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(machine.get(), HWLOC_OBJ_CORE, core)) != nullptr;) {
    const int first = hwloc_bitmap_first(core->cpuset);
    for (int thread = first; thread >= 0; thread = hwloc_bitmap_next(core->cpuset, thread)) {
      for (auto next = static_cast<int>(lowest.size()); next <= thread; ++next) lowest.push_back(next);
      lowest[static_cast<size_t>(thread)] = first;
    }
  }
  return lowest;
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
