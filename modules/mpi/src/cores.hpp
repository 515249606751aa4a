// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sched.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tw::mpi {

/// By number of a hardware thread of this machine: the lowest thread of its core. Empty if unknown.
std::vector<int> find_lowest_threads();
/// The result of the first call of find_lowest_threads().
const std::vector<int>& lowest_threads();
/// One hardware thread for each core that has some of `threads`: the lowest of the core. Pure. @param lowest see find_lowest_threads(); a thread that
/// it does not list is a core of its own
cpu_set_t cores_of(const cpu_set_t& threads, std::span<const int> lowest);

/// This rank's share of the cores it may use, divided among the ranks of its node with the same affinity: a launcher binds several ranks to one
/// socket, a container all of them to part of the node. At least 1.
/// @param affinities of the node's ranks, as cores_of() returns them; an empty set means unknown. @param own index of this rank among them.
/// @param cores_of_node cores that a rank of unknown affinity may use.
int share_of_cores(std::span<const cpu_set_t> affinities, size_t own, int cores_of_node);

/// The hardware threads of the cores closest to a PCI device, such as those of its NUMA node; empty if there is no such device or its place is
/// unknown.
std::optional<cpu_set_t> cores_near(const std::string& bus);

}  // namespace tw::mpi
