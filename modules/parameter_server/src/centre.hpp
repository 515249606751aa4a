// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/server_shards/rank_roles.hpp>
#include <vector>

#include "clocks.hpp"

namespace tw::parameter_server {

/// Collective. @throws ContractError on all ranks if roles differ between ranks or do not fit `comm`
RankRoles agreed_roles(const Communicator& comm, const Roles& roles);

/// The parameters on the servers, as a worker of one or more ranks uses them. Its first rank pushes and pulls; the others receive the values from it.
class Centre {
 public:
  /// Collective. @param roles of the ranks of `comm`. @param initial rank 0's values are used
  Centre(const Communicator& comm, RankRoles roles, const at::Tensor& initial, const std::vector<Rule>& rules, bool share_memory);

  const RankRoles& roles() const noexcept { return roles_; }
  bool trains() const noexcept { return worker_ >= 0; }
  /// The ranks of this worker; on a rank that only serves, the ranks that only serve.
  const Communicator& group() const noexcept { return group_; }
  /// @throws ContractError on ranks that neither serve nor lead a worker
  const ShardedTensor& tensor() const;
  const Traffic& traffic() const noexcept { return traffic_; }

  // For workers, called by all of their ranks together: if one throws, the others' waits end.

  /// Waits for the previous push, then starts this one. Do not change `pushed` until it is applied. @param rule empty: the first one
  void push(const at::Tensor& pushed, std::string_view rule = {});
  /// Waits until everything pushed is applied on all servers. The worker's clock then counts it.
  void wait_for_push();
  /// Starts a pull, unless one has started.
  void prefetch();
  bool has_prefetched() const noexcept { return has_prefetched_; }
  /// The values, now or at the time of prefetch(); equal on all ranks of the worker.
  at::Tensor pull();
  /// The lowest of the other workers' clocks at the last pull.
  int64_t slowest_seen() const noexcept { return slowest_seen_; }
  /// After restore(): sets slowest_seen(), in terms of the restarted clocks.
  void set_slowest_seen(int64_t slowest) noexcept { slowest_seen_ = slowest; }
  /// Waits until each worker that has not left has pushed `clock` times. After `warn_after` a warning names the late ones.
  void wait_for_all(int64_t clock, Seconds warn_after);

  /// Returns when all ranks have called it, with the final values; clocks restart at 0. Collective.
  at::Tensor finish();

  // See ShardedTensor; restore() is collective here.
  int64_t served_bytes() const { return link_ ? link_->values.served_bytes() : 0; }
  std::vector<NamedShard> shards(const std::string& name) const;
  void restore(const std::vector<NamedShard>& shards);

 private:
  /// The state of a rank that serves or leads a worker.
  struct Link {
    Communicator comm;
    ShardedTensor values;
    Clocks clocks;
  };

  bool leads() const noexcept { return link_.has_value() && trains() && group_.rank() == 0; }
  /// The rank in link_->comm of `rank`; -1: not a member.
  int place_of(int rank) const;
  void forget_reading();
  /// The first rank's values, broadcast to all ranks of the worker.
  at::Tensor broadcast_to_worker(at::Tensor values) const;

  RankRoles roles_;
  int worker_;
  at::TensorOptions type_;
  std::vector<int64_t> shape_;
  Communicator group_;
  std::optional<Link> link_;
  Traffic traffic_;

  ShardedTensor::Handle pushed_;
  std::optional<ShardedTensor::Prefetched> clocks_at_push_;  // requested with the push in flight
  std::optional<ShardedTensor::Prefetched> prefetched_;
  std::optional<ShardedTensor::Prefetched> clocks_at_pull_;
  bool has_prefetched_ = false;
  int64_t others_seen_ = 0;  // pushes of other workers up to the last pull
  int64_t slowest_seen_ = 0;
};

}  // namespace tw::parameter_server
