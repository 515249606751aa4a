// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/server_shards/roles.hpp>
#include <vector>

#include "clocks.hpp"

namespace tw::parameter_server {

/// Collective. @throws ContractError on all ranks for roles that differ or do not fit
RankRoles agreed_roles(const Communicator& comm, const Roles& roles);

/// The parameters on the servers, as a worker of one or more ranks has to do with them: the first one pushes and pulls, the others are told what
/// came.
class Centre {
 public:
  /// Collective. @param roles of the ranks of `comm`. @param initial that of rank 0 counts
  Centre(const Communicator& comm, RankRoles roles, const at::Tensor& initial, const std::vector<Rule>& rules, bool share_memory);

  const RankRoles& roles() const noexcept { return roles_; }
  bool trains() const noexcept { return worker_ >= 0; }
  /// Ranks of this worker. Of a rank that only serves: others of its kind.
  const Communicator& group() const noexcept { return group_; }
  /// @throws ContractError on ranks that neither serve nor lead a worker
  const ShardedTensor& tensor() const;
  const Traffic& traffic() const noexcept { return traffic_; }

  // For workers, on all of their ranks together: where one throws, the others' waits end.

  /// Waits for the push before; `pushed` is to be left alone. @param rule empty: the first one
  void push(const at::Tensor& pushed, std::string_view rule = {});
  /// Waits until what was pushed is applied everywhere. The worker's clock counts it then.
  void settle();
  /// Begins a pull, unless one has begun.
  void prefetch();
  bool has_prefetched() const noexcept { return has_prefetched_; }
  /// The values, now or as they were when they were asked for; equal on all ranks of the worker.
  at::Tensor pull();
  /// What the others' clocks said at the last pull: the lowest one.
  int64_t slowest_seen() const noexcept { return slowest_seen_; }
  /// After restore(): what it was then, as clocks count now.
  void assume_seen(int64_t slowest) noexcept { slowest_seen_ = slowest; }
  /// Waits until all workers that have not left have pushed so often, and names those who have not in a warning after `warn_after`.
  void wait_for_all(int64_t clock, Seconds warn_after);

  /// Returns when all ranks have called it, with the values then; clocks begin at 0 again. Collective.
  at::Tensor finish();

  // See ShardedTensor; restore() is collective here.
  int64_t served_bytes() const { return link_ ? link_->values.served_bytes() : 0; }
  std::vector<NamedShard> shards(const std::string& name) const;
  void restore(const std::vector<NamedShard>& shards);

 private:
  /// What a member of the servers' talks has.
  struct Link {
    Communicator comm;
    ShardedTensor values;
    Clocks clocks;
  };

  bool leads() const noexcept { return link_.has_value() && trains() && group_.rank() == 0; }
  /// The rank in the servers' talks of `rank`; -1: none.
  int place_of(int rank) const;
  void forget_reading();
  /// Values that the first rank got, on all of them.
  at::Tensor told(at::Tensor values) const;

  RankRoles roles_;
  int worker_;
  at::TensorOptions type_;
  std::vector<int64_t> shape_;
  Communicator group_;
  std::optional<Link> link_;
  Traffic traffic_;

  ShardedTensor::Handle pushed_;
  std::optional<ShardedTensor::Prefetched> clocks_at_push_;  // of the push in flight
  std::optional<ShardedTensor::Prefetched> prefetched_;
  std::optional<ShardedTensor::Prefetched> clocks_at_pull_;
  bool has_prefetched_ = false;
  int64_t others_seen_ = 0;  // pushes of other workers up to the last pull
  int64_t slowest_seen_ = 0;
};

}  // namespace tw::parameter_server
