// SPDX-License-Identifier: Apache-2.0
// The cost of a collective on a described cluster, by formula: it needs no ranks and makes no plans.
#pragma once
#include <chrono>
#include <cstdint>
#include <string_view>
#include <tw/algorithms/plan.hpp>
#include <vector>

namespace tw::algorithms {

struct LinkCost {
  std::chrono::duration<double> latency;  ///< of a message, from the call on one rank to the return on the other
  double bytes_per_second;                ///< in each direction
};

/// Nodes of equally many ranks, consecutive ones on a node, which share what joins it to the others.
struct Cluster {
  int nodes = 1;
  int ranks_per_node = 1;
  LinkCost within{std::chrono::duration<double>(1e-6), 5e9};       ///< of the ranks of a node, together
  LinkCost between{std::chrono::duration<double>(30e-6), 1.25e8};  ///< of each node: 1 Gbit/s

  int64_t ranks() const noexcept { return int64_t{nodes} * ranks_per_node; }
};

struct Price {
  std::chrono::duration<double> latency{};   ///< of messages that follow one another
  std::chrono::duration<double> transfer{};  ///< of bytes over what they share
  std::chrono::duration<double> total() const { return latency + transfer; }
};

/// The algorithm that all-reduces or broadcasts a share between nodes: the fewest rounds for small shares, the steadiest links for large ones.
Algorithm between_nodes(Collective collective, int nodes, int64_t share_bytes) noexcept;

/// Task::pipelined for a tensor or chunk of `bytes` bytes. For `double_tree` the first power of two (so that few different plans exist) that is at
/// least sqrt(bytes / 1 KiB) and at least bytes / 32 KiB: 8 blocks of 8 KiB, 128 of 32 KiB. For all others 1.
int64_t pipelined_blocks(Algorithm algorithm, int64_t bytes) noexcept;

/// The methods for `collective`: the names of the algorithms that support it, and "hierarchical" where nodes have several ranks and the collective
/// has a hierarchical implementation.
std::vector<std::string_view> methods_for(Collective collective, const Cluster& cluster);

/// @param method one of methods_for(). @param bytes of the tensor that is reduced or broadcast, of the full output of an all-gather, of the full
/// input of a reduce-scatter, and of one rank's input of an all-to-all
Price price_of(std::string_view method, Collective collective, const Cluster& cluster, int64_t bytes);

}  // namespace tw::algorithms
