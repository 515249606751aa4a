// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/tensor/memory_account.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/train/model.hpp>
#include <tw/train/options.hpp>
#include <vector>

#include "ranks.hpp"

namespace torch::optim {
class Optimizer;
}

namespace tw::train {

/// Signals that ranks exchange during training.
enum class Signal {
  stop,        ///< a rank asks for the end of the run
  non_finite,  ///< a value is not finite
};

/// Outcome of an update.
struct Outcome {
  bool skipped = false;     ///< this rank skipped the update because a value was not finite
  bool overflow = false;    ///< only gradients were not finite: a smaller loss scale may help; equal on all ranks that meet
  bool non_finite = false;  ///< some rank had another non-finite value; equal on all ranks, as is `stop`
  bool stop = false;        ///< some rank asks for the end
  bool operator==(const Outcome&) const = default;
};

/// The outcome of an update whose facts are equal on all ranks. @param non_finite some rank raised it. @param finite all gradients are finite
Outcome outcome_of(bool non_finite, bool finite, bool stop, double loss_scale);

/// One pass of an update on this rank.
struct MicroBatchShare {
  double weight = 0;         ///< weight of the mean over this rank's samples in the mean over all samples of the update
  bool last = true;          ///< last pass of the update
  bool one_backward = true;  ///< see TrainableModel::makes_one_backward_pass()
};

/// How the ranks train one model. An update: zero_grad(), accumulate() of one or more passes, update().
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual void zero_grad() = 0;
  /// Calls `pass`, which accumulates the gradient of its mean loss, times a weight. Reduces gradients after the last pass, if the strategy does.
  virtual void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) = 0;
  /// Other ranks receive the signal with the outcome of this update or, if ranks meet rarely, of a later one.
  virtual void raise(Signal word) = 0;
  /// Call between accumulate() and update(): see clip_gradient_norm() in <tw/gradients/clipping.hpp>. Collective if ranks meet in every update.
  /// @param loss_scale factor that the gradients contain @return the norm of gradients / loss_scale
  virtual double clip_gradients(double max_norm, double loss_scale) = 0;
  /// Updates the parameters unless a value was not finite. Collective if ranks meet. @param loss_scale factor that the gradients contain. If it
  /// exceeds 1, non-finite gradients of finite losses count as overflow
  virtual Outcome update(double loss_scale) = 0;
  /// Makes parameters that have diverged equal on all ranks, and exchanges signals. Collective.
  virtual Outcome meet() { return {}; }

  /// Whether every rank must make the same number of passes; ranks without samples then pass over samples that do not count.
  virtual bool ranks_pass_in_step() const { return false; }
  /// The ranks that sum gradients with this one in every update, this one included. Null: this rank alone.
  virtual const Communicator* summing_ranks() const = 0;

  /// The number of replicas that make updates of their own between meetings. 1: all ranks make each update together.
  virtual int replicas() const { return 1; }

  /// The optimizer whose learning rates apply.
  virtual torch::optim::Optimizer& optimizer() = 0;
  /// Parameters and the state kept between steps, for checkpoints; shares memory.
  virtual std::vector<NamedShard> shards() const = 0;
  /// The model as other programs know it, see TrainableModel::exported_shards(). Equal on ranks that have the same elements once these have met.
  virtual std::vector<NamedShard> exported_shards() const = 0;
  /// Creates and drops state so that shards() has exactly `names`. See OptimizerState.
  virtual void prepare(const std::vector<std::string>& names) = 0;
  /// Applies the state that does not share memory. See OptimizerState.
  virtual void apply(const std::vector<NamedShard>& shards) = 0;
  /// Accounts for this rank's memory, except the model's buffers.
  virtual void account(KnownMemory& known) const = 0;
  /// See Reducer::arrival_order().
  virtual std::vector<int64_t> arrival_order() const { return {}; }

  /// Time this rank only communicated, over all updates.
  virtual Seconds exposed_time() const = 0;
  /// Bytes this rank passed to collectives, over all updates.
  virtual int64_t payload_bytes() const = 0;
  /// Null without servers.
  virtual const parameter_server::Traffic* server_traffic() const { return nullptr; }
};

/// Called after a communication of this rank, for timelines. `number` is the bucket; `name` must be a literal.
using OnCommunication =
    std::function<void(const char* name, int64_t number, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// Arguments for making a strategy. All borrowed.
struct StrategySetup {
  const Ranks& ranks;
  const Model& model;
  torch::optim::Optimizer& optimizer;
  const ShardOptions& shard;
  const ReplicaOptions& replicas;
  std::vector<int64_t> arrival_order = {};  ///< of an earlier run, or empty
  OnCommunication on_communication = {};    ///< may be empty
};

/// Makes the strategy that the options select. Collective. @throws ContractError if these ranks cannot train with them, see contradictions()
std::unique_ptr<Strategy> make_strategy(const StrategySetup& setup);

}  // namespace tw::train
