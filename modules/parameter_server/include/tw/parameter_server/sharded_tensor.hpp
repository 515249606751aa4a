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
  /// What pushes can do; the first is the default. zero, copy and add can be named without being listed, and an empty list is {add}. Rules of your
  /// own bear other names.
  std::vector<Rule> rules = {};
  /// The ranks that hold shards, ascending. Empty: all. Ranks that only serve call finish() at once.
  std::vector<int> servers = {};
  /// Refuse pushes with NaN or infinity, at the caller: one more pass over what is pushed.
  bool refuse_non_finite = false;
  /// Work on the shards of this node's servers directly. Otherwise by messages, as with those of other nodes.
  bool share_memory = true;
};

/// A tensor whose elements lie on servers, which any rank may change by a rule and read, whenever it likes: nobody waits for anybody.
///
/// ```
/// ShardedTensor centre(comm, flat_parameters, {.rules = {rules::adam({.lr = 1e-3})}});
/// auto pushed = centre.push(gradient);    // returns at once
/// auto pulled = centre.prefetch();        // to be integrated later
/// ...
/// centre.finish();
/// ```
/// Ranks of a server's node apply rules to its memory themselves, so that a server need not run for them; those of other nodes send messages, which
/// are dealt with whenever the server's rank is inside this library, or all the time where EnvironmentOptions::progress is ProgressDriver::thread.
///
/// One rank's calls take effect in their order. Those of different ranks are ordered element by element: no update is lost, whatever the rule. A pull
/// sees each element as it was between two updates, but not all elements at the same time; shards() does, on each server.
///
/// Shards lie in memory of the host. What is pushed or pulled into may lie on a device: it travels through pinned memory; the host waits until what
/// is pushed is there, and the current stream, at the end of a pull, for what has come.
class ShardedTensor {
 public:
  /// Collective. @param comm duplicated. @param initial the values to begin with, those of rank 0; float32, float64, float16 or bfloat16
  /// @throws ContractError on every rank when shapes, dtypes or options differ, for an undefined tensor, for a dtype that is no floating point
  /// number,
  ///         for rules with equal names or our own, and for servers that are no ranks
  ShardedTensor(const Communicator& comm, const at::Tensor& initial, const ShardedTensorOptions& options = {});
  /// Local. What was not waited for goes on, and other ranks' requests are answered until they have destroyed theirs, wherever the engine is driven.
  ~ShardedTensor();
  ShardedTensor(ShardedTensor&&) noexcept;
  ShardedTensor& operator=(ShardedTensor&&) noexcept;

  class Handle;

  /// Applies a rule to all elements. `pushed` may be changed once the handle is complete; the update has been applied everywhere then.
  /// @param pushed of the tensor's shape and dtype. @param rule by name; empty: the first of the options
  /// @throws ContractError for another shape, dtype or rule, or for what is not finite where that is refused: nothing has been pushed then.
  ///         Where a rule throws, the handle's wait() throws it; some of the elements may have been updated
  Handle push(const at::Tensor& pushed, std::string_view rule = {});
  /// Fills `out`. @param out of the tensor's shape and dtype, contiguous; to be left alone until the handle is complete
  Handle pull(const at::Tensor& out) const;
  /// Begins a pull into memory of the host of its own.
  class Prefetched;
  Prefetched prefetch() const;

  /// Returns when all ranks have called it; every push has been applied then. Collective. For a rank that only serves this is all there is to do; it
  /// sleeps in between, as long as the others compute. The wait of a rank that pushed or pulled is watched.
  void finish();

  /// What this rank serves, for checkpoints: values as `name`, state of rules as `name.rule.slot` (float32 for halves), and counts. Consistent:
  /// pushes on this shard that have begun are waited for, with those that come by messages in several pieces, and others wait while it is copied.
  /// Local; empty where this rank is no server.
  std::vector<NamedShard> shards(const std::string& name) const;

  /// Takes over what shards() gave, here or loaded from a checkpoint of any number of servers. Local; before others push.
  /// @throws ContractError when they are not those of this shard
  void restore(const std::vector<NamedShard>& shards);

  /// Of the values and the rules' state that lie on this rank.
  int64_t served_bytes() const;
  const ShardLayout& layout() const noexcept;
  const std::vector<int>& servers() const noexcept;
  const Communicator& comm() const noexcept;
  /// Pushes and pulls of this rank that are not complete.
  int64_t in_flight() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// A push or a pull in flight. Dropping it lets it go on; a failure is then logged.
class ShardedTensor::Handle {
 public:
  Handle() = default;
  /// Whether it is complete. @throws what made it fail
  bool test();
  /// Returns when it is complete. @throws what made it fail
  void wait();

 private:
  friend class Impl;
  void finish();

  std::vector<Work> parts_;                                   // with servers on other nodes
  std::vector<std::shared_ptr<const std::string>> failures_;  // of those
  std::exception_ptr failure_;                                // on this one
  at::Tensor arrived_;                                        // what a pull has brought, in pinned memory
  at::Tensor out_;                                            // where on a device it belongs; undefined: there, or nowhere
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
