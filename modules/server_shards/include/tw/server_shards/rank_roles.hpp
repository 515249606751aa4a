// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

namespace tw::parameter_server {

/// The roles of a job's ranks.
struct Roles {
  /// Number of consecutive ranks that form a worker and have equal gradients, for example through data parallelism. The first of them communicates
  /// with the servers and forwards the results to the others. Ranks that only serve are skipped in this count.
  int ranks_per_worker = 1;
  std::vector<int> servers = {};  ///< ranks that each hold a shard, ascending; empty: the first rank of each worker
  bool dedicated = false;         ///< whether servers only serve and do not train
};

/// The role of each of `ranks` ranks. Pure.
class RankRoles {
 public:
  /// @throws ContractError if there is no rank, if ranks_per_worker is below 1, if `servers` is not ascending or names a rank that does not exist, if
  /// `dedicated` is set but `servers` is empty, or if the number of training ranks is not a positive multiple of ranks_per_worker
  RankRoles(const Roles& roles, int ranks);

  int workers() const noexcept { return static_cast<int>(leaders_.size()); }
  /// The index of the worker that `rank` belongs to; -1 if `rank` only serves.
  int worker_of(int rank) const { return worker_of_.at(static_cast<size_t>(rank)); }
  /// The first rank of each worker.
  const std::vector<int>& leaders() const noexcept { return leaders_; }
  const std::vector<int>& servers() const noexcept { return servers_; }
  /// Leaders and servers, ascending; rank 0 is always among them.
  const std::vector<int>& members() const noexcept { return members_; }

 private:
  std::vector<int> worker_of_;
  std::vector<int> leaders_;
  std::vector<int> servers_;
  std::vector<int> members_;
};

}  // namespace tw::parameter_server
