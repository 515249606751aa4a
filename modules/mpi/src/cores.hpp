// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sched.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace tw::mpi {

/// The cores that a rank may use, divided among the ranks of its node that may use the same: a launcher binds several to one socket, a container all
/// to part of the node. At least 1.
/// @param affinities of the ranks of a node; one without a core is not known. @param own index among them.
/// @param cores_of_node what a rank may use whose affinity is not known.
int share_of_cores(std::span<const cpu_set_t> affinities, size_t own, int cores_of_node);

/// The cores of the part of this machine that a PCI device hangs off, such as a NUMA node; nothing: there is no such device, or nobody knows.
std::optional<cpu_set_t> cores_near(const std::string& bus);

}  // namespace tw::mpi
