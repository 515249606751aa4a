// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <tw/parameter_server/sharded_tensor.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/server_shards/crew.hpp>
#include <vector>

namespace tw::parameter_server {

class Centre;
class FlatParameters;

/// What all have in common who train by way of servers: Downpour, ElasticAveraging, StaleSynchronous, SynchronousAveraging.
class Worker {
 public:
  virtual ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Once in a training step; each algorithm says where. Collective over the ranks of a worker, whose gradients are equal.
  /// @return whether something was taken over from the servers
  virtual bool step() = 0;
  /// Pushes what is left, waits for all workers, and takes over the centre: then all ranks hold it, and training may go on. Collective. It is also
  /// all that a rank does that only serves.
  virtual void finish();

  /// The ranks of this worker.
  const Communicator& group() const noexcept;
  /// @throws ContractError on ranks that neither serve nor are their worker's first
  const ShardedTensor& centre() const;
  /// On a worker's first rank.
  const Traffic& traffic() const noexcept;

  /// What the algorithm keeps from step to step beside the parameters.
  virtual std::vector<at::Tensor> kept() const { return {}; }
  /// See ShardedTensor::served_bytes().
  int64_t served_bytes() const;
  /// What this rank serves, see ShardedTensor::shards(); the workers' own parameters are not among that.
  std::vector<NamedShard> shards(const std::string& name) const;
  /// Goes on with such shards and this rank's parameters, as they are now. Collective.
  void restore(const std::vector<NamedShard>& shards);

 protected:
  using RulesOf = std::function<std::vector<Rule>(const Crew& crew)>;

  /// Collective. All begin with rank 0's parameters. @param rules what servers follow; may throw for options that are wrong
  /// @throws ContractError on every rank where `rules` throws it on one, for parameters that are not of one floating point type, and for such whose
  /// number, shapes or type are not rank 0's, naming the first one that differs
  Worker(const Communicator& comm, std::vector<at::Tensor> parameters, const Roles& roles, const RulesOf& rules, bool share_memory);

  Centre& servers() const noexcept { return *centre_; }
  const FlatParameters& parameters() const noexcept { return *parameters_; }

 private:
  /// What has not been pushed yet. On ranks that train.
  virtual void push_rest() {}
  /// Nothing is in flight, and the parameters are what they are: after finish() and restore().
  virtual void begin_anew() {}

  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<Centre> centre_;
};

}  // namespace tw::parameter_server
