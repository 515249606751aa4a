// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// A level of a hierarchy: ranks with equal keys, at this level and at those above, form a group.
struct Level {
  std::string name;  ///< such as "node"; the same on all ranks
  std::string key;   ///< of this rank, such as its host's name
};

/// The level of nodes: ranks that share memory. Collective.
Level node_level(const Communicator& comm);
/// Inside nodes, the level of the NUMA nodes that ranks may run on; all ranks of a node that is one, or that may run anywhere, have the same key.
/// Local.
Level numa_level();

/// Who speaks between the groups of a level.
enum class Between {
  cartesian,  ///< ranks of the same place in their groups, which have equal sizes
  tree,       ///< the first rank of each group
};

/// A communicator's ranks in groups, groups of groups, and so on: for each level a communicator inside each group, and one between the groups that
/// lie in one group of the level above. For collectives of one's own; those of `comm` itself go by nodes without it.
class Hierarchy {
 public:
  /// Collective. @param levels the outermost first; the same names on all ranks. @throws ContractError on every rank where names differ, or where
  /// groups that are to be cartesian differ in size, naming both
  Hierarchy(const Communicator& comm, const std::vector<Level>& levels, Between between = Between::cartesian);

  int levels() const noexcept { return static_cast<int>(names_.size()); }
  /// The ranks of this one's group.
  const Communicator& inside(int level) const;
  /// Ranks of the groups beside; null where this rank does not speak for its own.
  const Communicator* between(int level) const;
  /// Such as "2 node of 4 ranks, 2 numa of 2 ranks", of this rank's groups.
  std::string describe() const;

 private:
  std::vector<std::string> names_;
  std::vector<Communicator> inside_;
  std::vector<Communicator> between_;
  std::vector<bool> speaks_;
};

}  // namespace tw
