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

  /// Call this once per training step; each algorithm documents where. Collective over the ranks of a worker; all of these must have the same
  /// gradients.
  /// @return whether this step used values from the servers
  virtual bool step() = 0;
  /// Pushes the remaining changes, waits for all workers, and copies the centre (the servers' values) to all ranks; training may then continue.
  /// Collective. A rank that only serves calls nothing else.
  void finish();

  /// The ranks of this worker.
  const Communicator& group() const noexcept;
  /// The tensor on the servers. @throws ContractError on ranks that neither serve nor are the first of their worker
  const ShardedTensor& centre() const;
  /// Call it only on a worker's first rank.
  const Traffic& traffic() const noexcept;

  /// State that the algorithm keeps from step to step, in addition to the parameters.
  virtual std::vector<at::Tensor> retained_state() const { return {}; }
  /// See ShardedTensor::served_bytes().
  int64_t served_bytes() const;
  /// State for checkpoints: this rank's shards (see ShardedTensor::shards()); `name.counts`, where the worker is between two exchanges; and
  /// `name.kept`, state that is not pushed yet, if there is any. Does not include the workers' own parameters.
  std::vector<NamedShard> shards(const std::string& name) const;
  /// Continues from a result of shards() and this rank's current parameters. Collective: returns when all ranks have called it; a worker that is
  /// still in step() does not wait for a worker that has called it. If the number of ranks has changed, periods restart, and each rank gets the mean
  /// of the retained state.
  void restore(const std::vector<NamedShard>& shards);

 protected:
  using MakeRules = std::function<std::vector<Rule>()>;

  /// Collective. All ranks begin with rank 0's parameters. @param rules makes the servers' rules; may throw for wrong options
  /// @throws ContractError on every rank if `rules` throws it on one, if parameters are not all of one floating-point type on one device, or if roles
  /// or the parameters' number, shapes or type differ between ranks; the message names the first difference
  Worker(const Communicator& comm, std::vector<at::Tensor> parameters, const Roles& roles, const MakeRules& rules, bool share_memory);

  /// A worker's position between two exchanges. If a pull is in flight, resume_from() starts it again.
  struct Position {
    std::vector<int64_t> counts = {};
    at::Tensor retained = {};  ///< undefined: nothing
  };

  Centre& servers() const noexcept { return *centre_; }
  const FlatParameters& parameters() const noexcept { return *parameters_; }

 private:
  /// Pushes the changes that have not been pushed yet. Called on ranks that train.
  virtual void push_rest() {}
  /// Resets the state from the current parameters, with nothing in flight. Called after finish() and restore().
  virtual void restart() {}
  virtual Position position() const { return {}; }
  /// Called after restart() with a result of position().
  virtual void resume_from(const Position& /*position*/) {}

  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<Centre> centre_;
};

}  // namespace tw::parameter_server
