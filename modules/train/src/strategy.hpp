// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/parameter_server/traffic.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/train/memory_account.hpp>
#include <tw/train/model.hpp>
#include <tw/train/options.hpp>
#include <vector>

#include "ranks.hpp"

namespace torch::optim {
class Optimizer;
}

namespace tw::train {

/// What ranks say to each other along with training.
enum class Signal {
  stop,     ///< somebody asks for the end of the run
  trouble,  ///< something is not finite
};

/// What became of an update.
struct Outcome {
  bool left_out = false;  ///< this rank made no update, because something was not finite
  bool overflow = false;  ///< and that was nothing but its gradients, which a smaller loss scale may cure; where ranks meet, on all alike
  bool trouble = false;   ///< on some rank something else was not finite; the same on all ranks, as are these
  bool stop = false;      ///< some rank asks for the end
  bool operator==(const Outcome&) const = default;
};

/// Of an update of which all ranks know the same. @param trouble some rank said so. @param finite all gradients are
Outcome outcome_of(bool trouble, bool finite, bool stop, double loss_scale);

/// A pass of an update on this rank.
struct MicroBatchShare {
  int64_t here = 0;          ///< samples; may be 0
  int64_t samples = 0;       ///< that the update has on all ranks
  bool last = true;          ///< of the update
  bool one_backward = true;  ///< see TrainableModel::makes_one_backward_pass()
};

/// How the ranks train one model. An update: zero_grad(), accumulate() of one or more passes, update().
class Strategy {
 public:
  virtual ~Strategy() = default;

  virtual void zero_grad() = 0;
  /// Calls `pass`, which adds the gradient of its mean loss, times a weight, to the gradients; after the last one they are reduced, where ranks do.
  virtual void accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) = 0;
  /// To be heard with the outcome of this update or, where ranks meet rarely, of a later one.
  virtual void raise(Signal word) = 0;
  /// Between accumulate() and update(): see clip_gradient_norm() in <tw/gradients/clipping.hpp>. Collective where ranks meet in every update.
  /// @param loss_scale by which the gradients are too large @return the norm of gradients / loss_scale
  virtual double clip_gradients(double max_norm, double loss_scale) = 0;
  /// Updates the parameters, unless something was not finite. Collective where ranks meet. @param loss_scale by which the gradients are too large;
  /// where it is more than 1, gradients that are not finite, of losses that are, have overflowed
  virtual Outcome update(double loss_scale) = 0;
  /// Makes the ranks' parameters one, where they had drifted apart, and hears what was said. Collective.
  virtual Outcome meet() { return {}; }

  /// Whether every rank has to make as many passes as the others, those without samples over a sample that does not count.
  virtual bool ranks_pass_in_step() const { return false; }
  /// Where no rank has the model whole, its tensors on rank 0, and nothing on others. Collective. None: all have it.
  virtual std::optional<std::vector<NamedTensor>> whole_tensors() { return std::nullopt; }

  /// Whose learning rates count.
  virtual torch::optim::Optimizer& optimizer() = 0;
  /// The parameters, and what is remembered from step to step, for checkpoints; shares memory.
  virtual std::vector<NamedShard> shards() const = 0;
  /// Makes and forgets state, so that shards() gives what `names` has. See OptimizerState.
  virtual void prepare(const std::vector<std::string>& names) = 0;
  /// Takes over what does not share memory. See OptimizerState.
  virtual void apply(const std::vector<NamedShard>& shards) = 0;
  /// Says what this rank's memory is for, but for the model's buffers.
  virtual void account(KnownMemory& known) const = 0;
  /// See Reducer::arrival_order().
  virtual std::vector<int64_t> arrival_order() const { return {}; }

  /// Over all updates: how long this rank did nothing but communicate.
  virtual Seconds exposed_time() const = 0;
  /// Over all updates: what this rank gave to collectives.
  virtual int64_t payload_bytes() const = 0;
  /// Null where there are no servers.
  virtual const parameter_server::Traffic* server_traffic() const { return nullptr; }
};

/// Told when this rank communicated, for timelines; numbers are of buckets. Names are literals.
using OnCommunication =
    std::function<void(const char* name, int64_t number, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)>;

/// What a strategy is made for. All is borrowed.
struct StrategySetup {
  const Ranks& ranks;
  const Model& model;
  torch::optim::Optimizer& optimizer;
  const StrategyOptions& options;
  std::vector<int64_t> arrival_order = {};  ///< of an earlier run, or empty
  OnCommunication on_communication = {};    ///< may be empty
};

/// Collective. @throws ContractError for a strategy that a model in parts cannot have
std::unique_ptr<Strategy> make_strategy(const StrategySetup& setup);

}  // namespace tw::train
