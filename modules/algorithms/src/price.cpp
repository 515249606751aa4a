// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <optional>
#include <tw/algorithms/price.hpp>
#include <tw/base/contract.hpp>

#include "builders.hpp"
#include "cost.hpp"

namespace tw::algorithms {
namespace {

using Duration = std::chrono::duration<double>;

constexpr std::string_view hierarchical = "hierarchical";
constexpr double chunk_bytes = 4 << 20;  // of `comm`'s chunks

// Factor on bytes between nodes if a rank's partner changes from step to step. Ranks then drift apart, so that two messages share a link, which never
// happens in a ring. Measured at 1 Gbit/s on 2 x 2 and on 4 ranks, 1 and 16 MiB: 1.0 to 1.2.
constexpr double meeting = 1.1;

/// Adds up consecutive steps.
class Sum {
 public:
  explicit Sum(const Cluster& cluster) : cluster_(cluster) {}

  /// Every rank sends `bytes` to the rank `distance` further on. @param partners_change whether the partner changes from step to step
  void all_send(double bytes, int64_t distance, double times, bool partners_change) {
    send_across(bytes, cluster_.nodes == 1 ? 0 : std::min<int64_t>(distance, cluster_.ranks_per_node), times, partners_change);
  }
  /// Ranks whose numbers differ only in `bit` exchange `bytes`, in one step.
  void pairs_send(double bytes, int64_t bit) {
    const bool stay = cluster_.nodes == 1 || cluster_.ranks_per_node % (2 * bit) == 0;
    send_across(bytes, stay ? 0 : std::min<int64_t>(bit, cluster_.ranks_per_node), 1, true);
  }
  /// At most one rank of a node sends.
  void one_sends(double bytes, int64_t distance, double times = 1) {
    add(cluster_.nodes > 1 && distance >= cluster_.ranks_per_node ? cluster_.between : cluster_.within, bytes, times);
  }
  void add(const LinkCost& link, double bytes, double times = 1) {
    price_.latency += times * link.latency;
    price_.transfer += Duration(times * bytes / link.bytes_per_second);
  }

  const Price& price() const { return price_; }

 private:
  // @param across number of a node's ranks that send to another node
  void send_across(double bytes, int64_t across, double times, bool partners_change) {
    if (across > 0) {
      add(cluster_.between, bytes * static_cast<double>(across) * (partners_change && cluster_.ranks() > 2 ? meeting : 1), times);
    } else {
      add(cluster_.within, bytes * cluster_.ranks_per_node, times);
    }
  }

  const Cluster& cluster_;
  Price price_;
};

double as_double(int64_t number) { return static_cast<double>(number); }

void add_ring(Sum& sum, double ranks, double bytes, bool all) { sum.all_send(bytes / ranks, 1, (all ? 2 : 1) * (ranks - 1), false); }

void add_circulant(Sum& sum, int64_t ranks, double bytes, bool all) {
  for (int64_t have = 1; have < ranks; have *= 2) {
    sum.all_send(bytes * as_double(std::min(have, ranks - have)) / as_double(ranks), have, all ? 2 : 1, true);
  }
}

void add_recursive_doubling(Sum& sum, int64_t ranks, double bytes) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(ranks)));
  if (power < ranks) sum.all_send(bytes, 1, 2, true);
  for (int64_t bit = 1; bit < power; bit *= 2) sum.pairs_send(bytes, bit);
}

void add_tree(Sum& sum, int64_t ranks, double bytes) {
  for (int64_t distance = 1; distance < ranks; distance *= 2) sum.one_sends(bytes, distance);
}

// Chunks follow one another over the slowest link.
void add_chain(Sum& sum, const Cluster& cluster, double bytes) {
  const double chunks = std::max(1.0, bytes / chunk_bytes);
  sum.add(cluster.within, bytes / chunks, as_double(cluster.ranks() - cluster.nodes));
  sum.add(cluster.between, bytes / chunks, cluster.nodes - 1);
  const LinkCost& slowest = cluster.nodes > 1 ? cluster.between : cluster.within;
  sum.add({Duration(0), slowest.bytes_per_second}, bytes - bytes / chunks);
}

// Traffic on a node's link in its busier direction, relative to that of a rank alone on its node. The root is the first rank of a node. With few
// ranks the edges are counted. Beyond that it is an upper bound: a power of two of adjacent ranks forms a subtree plus one place above it, with as
// many outside edges per tree as a single rank. An odd factor in their number adds some.
double double_tree_crossings(const Cluster& cluster, Collective collective) {
  constexpr int64_t quickly_counted = 256;  // ranks
  if (cluster.ranks_per_node == 1) return 1;
  if (cluster.ranks() <= quickly_counted) {
    const double of_rank = collective == Collective::allreduce ? 4 : 2;  // a lone rank's edges, with half the blocks in each tree
    return as_double(double_tree_crossing_edges(cluster.nodes, cluster.ranks_per_node, collective)) / of_rank;
  }
  return 2 + 0.75 * levels_of(cluster.ranks_per_node >> std::countr_zero(static_cast<unsigned>(cluster.ranks_per_node)));
}

// The first blocks of a chunk wait at each level, until two have been passed to the children or received from them. After that the bytes of all
// chunks count, over the node's link or, if that is slower, in its memory. @param carriers ranks that each carry a share of the tensor at the same
// time
void add_double_tree(Sum& sum, const Cluster& cluster, Collective collective, double bytes, int carriers = 1) {
  if (cluster.ranks() == 1) return;
  const double chunk = std::min(bytes, chunk_bytes);
  const int64_t blocks = pipelined_blocks(Algorithm::double_tree, static_cast<int64_t>(chunk) / carriers);
  const Task task{.collective = collective, .ranks = static_cast<int>(cluster.ranks()), .pipelined = blocks};
  const Cost cost = cost_of(Algorithm::double_tree, task);
  const LinkCost& link = cluster.nodes > 1 ? cluster.between : cluster.within;
  sum.add(link, 0, as_double(cost.rounds));
  const auto add_bytes = [&sum](const LinkCost& over, double all) { sum.add({Duration(0), over.bytes_per_second}, all); };
  add_bytes(link, 2 * chunk / as_double(blocks) * as_double(cost.rounds - (blocks + 1) / 2));
  const double of_rank = bytes * as_double(std::max(cost.sent, cost.received)) / as_double(blocks);
  const double across = cluster.nodes > 1 ? of_rank * double_tree_crossings(cluster, collective) : 0;
  const double within = cluster.ranks_per_node > 1 ? of_rank * cluster.ranks_per_node : 0;
  const bool link_is_slower = across / cluster.between.bytes_per_second > within / cluster.within.bytes_per_second;
  add_bytes(link_is_slower ? cluster.between : cluster.within, link_is_slower ? across : within);
}

void add_pairwise(Sum& sum, int64_t ranks, double bytes) {
  for (int64_t distance = 1; distance < ranks; ++distance) sum.all_send(bytes / as_double(ranks), std::min(distance, ranks - distance), 1, true);
}

void add_bruck(Sum& sum, int64_t ranks, double bytes) {
  for (int64_t hop = 1; hop < ranks; hop *= 2) sum.all_send(bytes * as_double(with_bit(ranks, hop)) / as_double(ranks), hop, 1, true);
}

Price price_of(Algorithm algorithm, Collective collective, const Cluster& cluster, double bytes) {
  const int64_t ranks = cluster.ranks();
  const bool all = collective == Collective::allreduce;
  Sum sum(cluster);
  switch (algorithm) {
    case Algorithm::ring: add_ring(sum, as_double(ranks), bytes, all); break;
    case Algorithm::circulant: add_circulant(sum, ranks, bytes, all); break;
    case Algorithm::recursive_doubling: add_recursive_doubling(sum, ranks, bytes); break;
    case Algorithm::tree: add_tree(sum, ranks, bytes); break;
    case Algorithm::chain: add_chain(sum, cluster, bytes); break;
    case Algorithm::double_tree: add_double_tree(sum, cluster, collective, bytes); break;
    case Algorithm::pairwise: add_pairwise(sum, ranks, bytes); break;
    case Algorithm::bruck: add_bruck(sum, ranks, collective == Collective::barrier ? 0 : bytes); break;
  }
  return sum.price();
}

// Prices the exchange between nodes as if each had one rank. Adds a node's memory time for one chunk; the network hides that of the others.
Price price_of_hierarchical(Collective collective, const Cluster& cluster, double bytes) {
  Cluster nodes = cluster;
  nodes.ranks_per_node = 1;
  Sum sum(nodes);
  const double first = std::min(bytes, chunk_bytes);
  switch (collective) {
    case Collective::allreduce:
      switch (between_nodes(collective, nodes.nodes, static_cast<int64_t>(first) / cluster.ranks_per_node)) {
        case Algorithm::recursive_doubling: add_recursive_doubling(sum, nodes.nodes, bytes); break;
        case Algorithm::circulant: add_circulant(sum, nodes.nodes, bytes, true); break;
        default: add_ring(sum, nodes.nodes, bytes, true);
      }
      sum.add(cluster.within, first, 2);
      break;
    case Collective::broadcast:
      if (between_nodes(collective, nodes.nodes, static_cast<int64_t>(first) / cluster.ranks_per_node) == Algorithm::tree) {
        add_tree(sum, nodes.nodes, bytes);
      } else {
        add_double_tree(sum, nodes, collective, bytes, cluster.ranks_per_node);
      }
      sum.add(cluster.within, first, 2);
      break;
    default:  // reduce-scatter, all-gather
      add_ring(sum, nodes.nodes, bytes, false);
      sum.add(cluster.within, first);
  }
  return sum.price();
}

std::optional<Algorithm> algorithm_named(std::string_view name) {
  for (int i = 0; i < algorithm_count; ++i) {
    if (name_of(static_cast<Algorithm>(i)) == name) return static_cast<Algorithm>(i);
  }
  return {};
}

bool goes_by_nodes(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::broadcast || collective == Collective::allgather ||
         collective == Collective::reduce_scatter;
}

}  // namespace

Algorithm between_nodes(Collective collective, int nodes, int64_t share_bytes) noexcept {
  constexpr int64_t latency_counts = int64_t{16} << 10;  // bytes that take as long as a few messages
  constexpr int64_t rounds_count = int64_t{64} << 10;    // bytes of a block, below which the number of rounds counts
  // With two nodes, either algorithm sends everything from one node to the other.
  if (collective == Collective::broadcast) return nodes == 2 || share_bytes <= latency_counts ? Algorithm::tree : Algorithm::double_tree;
  if (share_bytes <= latency_counts) return Algorithm::recursive_doubling;
  return share_bytes / nodes < rounds_count ? Algorithm::circulant : Algorithm::ring;
}

int64_t pipelined_blocks(Algorithm algorithm, int64_t bytes) noexcept {
  // K consecutive messages cost K latencies, and a block of n/K bytes waits at each of L levels. The sum is least if K grows as the square root of n.
  // This K is between the optima for 1 Gbit/s with 30 us and for 200 Gbit/s with 2 us. Blocks are limited because MPI sends larger messages only
  // after the receiver's reply. An all-reduce of 4 MiB on four hosts at 1 Gbit/s took 173 ms with blocks of 64 KiB, 70 to 100 ms with 32 KiB; the
  // bytes alone take 67 ms.
  constexpr int64_t bytes_of_one_block = 1024;
  constexpr int64_t largest_block = int64_t{32} << 10;
  if (algorithm != Algorithm::double_tree) return 1;
  int64_t blocks = 1;
  while (blocks * blocks * bytes_of_one_block < bytes || blocks * largest_block < bytes) blocks *= 2;
  return blocks;
}

std::vector<std::string_view> methods_for(Collective collective, const Cluster& cluster) {
  std::vector<std::string_view> methods;
  if (cluster.nodes > 1 && cluster.ranks_per_node > 1 && goes_by_nodes(collective)) methods.push_back(hierarchical);
  for (int i = 0; i < algorithm_count; ++i) {
    if (can(static_cast<Algorithm>(i), collective)) methods.push_back(name_of(static_cast<Algorithm>(i)));
  }
  return methods;
}

Price price_of(std::string_view method, Collective collective, const Cluster& cluster, int64_t bytes) {
  const std::vector<std::string_view> methods = methods_for(collective, cluster);
  TW_EXPECTS(std::find(methods.begin(), methods.end(), method) != methods.end(), "'", method, "' is not an algorithm for ", name_of(collective),
             " on ", cluster.nodes, " nodes of ", cluster.ranks_per_node, " ranks");
  if (method == hierarchical) return price_of_hierarchical(collective, cluster, as_double(bytes));
  return price_of(*algorithm_named(method), collective, cluster, as_double(bytes));
}

}  // namespace tw::algorithms
