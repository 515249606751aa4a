// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/server_shards/rank_roles.hpp>
#include <vector>

namespace tw::parameter_server {

class Centre;
class FlatParameters;

/// Base class of the algorithms that train through servers: Downpour, ElasticAveraging, StaleSynchronous.
class Worker {
 public:
  virtual ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Call this once in a training step; each algorithm documents where. Collective over the ranks of a worker, whose gradients are equal.
  /// @return whether values from the servers were used
  virtual bool step() = 0;
  /// Pushes what is left, waits for all workers, and takes over the centre: then all ranks hold it, and training may go on. Collective. It is also
  /// all that a rank does that only serves.
  void finish();

  /// The ranks of this worker.
  const Communicator& group() const noexcept;
  /// @throws ContractError on ranks that neither serve nor are their worker's first
  const ShardedTensor& centre() const;
  /// On a worker's first rank.
  const Traffic& traffic() const noexcept;

  /// State that the algorithm keeps from step to step, in addition to the parameters.
  virtual std::vector<at::Tensor> kept() const { return {}; }
  /// See ShardedTensor::served_bytes().
  int64_t served_bytes() const;
  /// What this rank serves, see ShardedTensor::shards(), and where it is in its period: `name.counts`, and `name.kept` where it keeps more than its
  /// parameters, of what the servers do not have yet. The workers' own parameters are not among that.
  std::vector<NamedShard> shards(const std::string& name) const;
  /// Goes on with such shards and this rank's parameters, as they are now. Collective: it returns when all ranks have called it, and nobody waits for
  /// this rank's steps meanwhile. Loaded on another number of ranks, periods begin again, and each rank has the mean of what ranks kept.
  void restore(const std::vector<NamedShard>& shards);

 protected:
  using MakeRules = std::function<std::vector<Rule>()>;

  /// Collective. All begin with rank 0's parameters. @param rules what servers follow; may throw for options that are wrong
  /// @throws ContractError on every rank where `rules` throws it on one, for parameters that are not of one floating point type, and for such whose
  /// number, shapes or type are not rank 0's, naming the first one that differs
  Worker(const Communicator& comm, std::vector<at::Tensor> parameters, const Roles& roles, const MakeRules& rules, bool share_memory);

  /// Where a worker is between two exchanges. A pull that was in flight is begun again.
  struct Position {
    std::vector<int64_t> counts = {};
    at::Tensor kept = {};  ///< undefined: nothing
  };

  Centre& servers() const noexcept { return *centre_; }
  const FlatParameters& parameters() const noexcept { return *parameters_; }

 private:
  /// What has not been pushed yet. On ranks that train.
  virtual void push_rest() {}
  /// Nothing is in flight, and the parameters are what they are: after finish() and restore().
  virtual void restart() {}
  virtual Position position() const { return {}; }
  /// After restart(), with what position() gave.
  virtual void go_on_from(const Position& /*position*/) {}

  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<Centre> centre_;
};

}  // namespace tw::parameter_server
