// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <tw/server_shards/rule.hpp>
#include <tw/server_shards/shard_layout.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw::parameter_server {

struct ShardedTensorOptions {
  /// Rules that pushes can apply; the first is the default. zero, copy and add are always available by name, and an empty list means {add}. Your own
  /// rules must have other names.
  std::vector<Rule> rules = {};
  /// The ranks that hold shards, ascending. Empty: all. Ranks that only serve call finish() right after the constructor.
  std::vector<int> servers = {};
  /// Whether push() throws if the pushed tensor contains NaN or infinity. Costs one more pass over the pushed tensor.
  bool refuse_non_finite = false;
  /// Whether to access shards of servers on this node directly in shared memory. Otherwise messages are used, as for other nodes.
  bool share_memory = true;
};

/// A tensor whose elements are stored on servers. Any rank may read it or change it by a rule at any time, without a matching call of other ranks.
///
/// ```
/// ShardedTensor centre(comm, flat_parameters, {.rules = {rules::adam({.lr = 1e-3})}});
/// auto pushed = centre.push(gradient);    // returns at once
/// auto pulled = centre.prefetch();        // take() returns the values later
/// ...
/// centre.finish();
/// ```
/// Ranks on a server's node apply rules to the server's memory themselves, without its help. Ranks on other nodes send messages. A server handles
/// these whenever its rank is inside this library, or at any time with ProgressDriver::thread in EnvironmentOptions::progress.
///
/// The calls of one rank take effect in order. Calls of different ranks are ordered per element: no update is lost, whatever the rule. A pull reads
/// each element between two updates, but not all elements at the same time. shards() is consistent over each server's shard.
///
/// Shards lie in host memory. The tensors passed to push() and pull() may lie on a device; they are copied through pinned memory. A push blocks the
/// host until this copy is done. A pull enqueues its copy on the current stream when Handle::test() or wait() finds it complete.
class ShardedTensor {
 public:
  /// Collective. @param comm duplicated. @param initial the initial values, of which only rank 0's are used; float32, float64, float16 or bfloat16
  /// @throws ContractError on every rank when shapes, dtypes, rules, servers or share_memory differ, for an undefined tensor, a dtype that is not
  /// floating-point, rules with equal or reserved names, or servers that are not ascending ranks of `comm`
  ShardedTensor(const Communicator& comm, const at::Tensor& initial, const ShardedTensorOptions& options = {});
  /// Local. Pending operations continue. Whenever the engine on this rank is driven, it still answers other ranks' requests, until those ranks have
  /// destroyed their tensors.
  ~ShardedTensor();
  ShardedTensor(ShardedTensor&&) noexcept;
  ShardedTensor& operator=(ShardedTensor&&) noexcept;

  class Handle;

  /// Applies a rule to all elements. Do not change `pushed` until the handle is complete; the update has then been applied on all servers.
  /// @param pushed has the tensor's shape and dtype. @param rule name of the rule; empty: the first of the options
  /// @throws ContractError for a wrong shape or dtype, an unknown rule, or refused non-finite values; nothing has then been pushed.
  ///         If a rule throws, the handle's test() or wait() throws: the rule's exception for a server in shared memory, an Error for others.
  ///         Some elements may then have been updated
  Handle push(const at::Tensor& pushed, std::string_view rule = {});
  /// Fills `out` with the values. @param out has the tensor's shape and dtype, contiguous; do not use it until the handle is complete. On a device,
  /// only the handle's test() or wait() fills it
  Handle pull(const at::Tensor& out) const;
  class Prefetched;
  /// Begins a pull into newly allocated host memory.
  Prefetched prefetch() const;

  /// Returns when all ranks have called it and every push has been applied. Collective. A rank that only serves needs no other call; it sleeps while
  /// the others compute. The watchdog monitors the wait only on ranks that have pushed or pulled since the last finish().
  void finish();

  /// This rank's shards, for checkpoints: values as `name`, state of rules as `name.<rule>.<slot>` (float32 for 16-bit types), and counts of updates
  /// as `name.updates`. Consistent: waits for pushes in progress on this shard, including those of several messages, and blocks others during the
  /// copy. Local; empty if this rank is not a server.
  std::vector<NamedShard> shards(const std::string& name) const;

  /// Restores a result of shards(), which may be assembled from a checkpoint of any number of servers. Local; call it before others push.
  /// @throws ContractError if `shards` do not match this shard
  void restore(const std::vector<NamedShard>& shards);

  /// Bytes of values and rule state on this rank.
  int64_t served_bytes() const;
  const ShardLayout& layout() const noexcept;
  const std::vector<int>& servers() const noexcept;
  const Communicator& comm() const noexcept;
  /// Number of unanswered requests of this rank. A push or a pull sends one request to each server that it does not access in shared memory.
  int64_t in_flight() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A push or a pull in flight. If the handle is dropped before the operation ends, the operation continues, and a failure is logged on a server that
/// is not accessed in shared memory. Other failures that neither test() nor wait() has reported are lost. If the handle of a pull into a device
/// tensor is dropped, the tensor keeps its old values: the handle makes the copy to the device. A pull into a host tensor still fills the tensor.
class ShardedTensor::Handle {
 public:
  Handle() = default;
  /// Whether the operation is complete. @throws the error that made it fail
  bool test();
  /// Returns when the operation is complete. @throws the error that made it fail
  void wait();

 private:
  friend class Impl;
  void finish();

  std::vector<Work> parts_;                                   // operations with servers on other nodes
  std::vector<std::shared_ptr<const std::string>> failures_;  // failures of these operations
  std::exception_ptr failure_;                                // failure on this node
  at::Tensor arrived_;                                        // values that a pull has received, in pinned memory
  at::Tensor out_;                                            // destination on a device; undefined: no copy needed
};

/// A pull in flight, and its memory.
class ShardedTensor::Prefetched {
 public:
  Prefetched(at::Tensor values, Handle handle) : values_(std::move(values)), handle_(std::move(handle)) {}
  bool test() { return handle_.test(); }
  /// Waits, and returns the values.
  at::Tensor take();

 private:
  at::Tensor values_;
  Handle handle_;
};

}  // namespace tw::parameter_server
