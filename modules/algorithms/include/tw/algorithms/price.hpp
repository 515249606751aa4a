// SPDX-License-Identifier: Apache-2.0
// Predicts the cost of a collective on a described cluster by formulas, without running ranks or making plans.
#pragma once
#include <chrono>
#include <cstdint>
#include <string_view>
#include <tw/algorithms/plan.hpp>
#include <vector>

namespace tw::algorithms {

struct LinkCost {
  std::chrono::duration<double> latency;  ///< latency of a message, from the send call to the return of the receive
  double bytes_per_second;                ///< in each direction
};

/// Nodes with equal numbers of consecutive ranks. The ranks of a node share its link to other nodes.
struct Cluster {
  int nodes = 1;
  int ranks_per_node = 1;
  LinkCost within{std::chrono::duration<double>(1e-6), 5e9};       ///< link within a node, shared by its ranks
  LinkCost between{std::chrono::duration<double>(30e-6), 1.25e8};  ///< link of each node to the others; by default 1 Gbit/s

  int64_t ranks() const noexcept { return int64_t{nodes} * ranks_per_node; }
};

struct Price {
  std::chrono::duration<double> latency{};   ///< sum of the latencies of consecutive messages
  std::chrono::duration<double> transfer{};  ///< transfer time of the bytes over shared links
  std::chrono::duration<double> total() const { return latency + transfer; }
};

/// The algorithm with which the hierarchical method exchanges shares of a tensor between nodes, in an all-reduce or broadcast. (The ranks of a node
/// divide a tensor into shares.) Small shares use an algorithm with few rounds, large shares one in which the partners of a rank never change.
Algorithm between_nodes(Collective collective, int nodes, int64_t share_bytes) noexcept;

/// The number of blocks (Task::pipelined) for a tensor or chunk of `bytes` bytes. For `double_tree` it is the smallest power of two that is at least
///
///   max(sqrt(bytes / 1 KiB), bytes / 32 KiB),
///
/// such as 8 for 64 KiB and 128 for 4 MiB. Powers of two keep the number of different plans small. For all other algorithms it is 1.
int64_t pipelined_blocks(Algorithm algorithm, int64_t bytes) noexcept;

/// The methods for `collective`: the names of the algorithms that support it, and "hierarchical" if there are several nodes with several ranks each,
/// and the collective has a hierarchical implementation.
std::vector<std::string_view> methods_for(Collective collective, const Cluster& cluster);

/// Predicts the cost of `collective` on `cluster`. @param method one of methods_for(). @param bytes size of the tensor that is reduced or broadcast,
/// of the full output of an all-gather, of the full input of a reduce-scatter, or of one rank's input of an all-to-all
/// @throws ContractError if `method` is not one of methods_for()
Price price_of(std::string_view method, Collective collective, const Cluster& cluster, int64_t bytes);

}  // namespace tw::algorithms
