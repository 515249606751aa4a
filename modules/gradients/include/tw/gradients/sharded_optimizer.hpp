// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <tw/base/clock.hpp>
#include <tw/base/option.hpp>
#include <tw/gradients/loss_scaler.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace tw {

/// Makes an optimizer over this rank's pieces of the parameters: each has the name of the parameter that it is cut from, and one dimension (of
/// Sharding::tensors: the parameter's own shape). A rank may have none.
using OptimizerFactory = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<NamedTensor>& pieces)>;

/// Makes optimizers of the same kind, groups and options as `prototype`, which is over `parameters`: SGD, Adam, AdamW, RMSprop or Adagrad.
/// @throws ContractError for other kinds, and when one of `parameters` is in no group of the prototype, by name.
/// @param prototype borrowed by the result.
OptimizerFactory optimizer_like(const torch::optim::Optimizer& prototype, const std::vector<NamedTensor>& parameters);
OptimizerFactory optimizer_like(const torch::optim::Optimizer&& prototype, const std::vector<NamedTensor>& parameters) = delete;

struct ShardedOptimizerOptions {
  /// Before an update, scale the gradients down to this norm: the 2-norm of all gradients of the model, each element once, on whichever ranks its
  /// slices lie (ReducerOptions::parts). 0: do not.
  double max_gradient_norm = 0;
  /// One copy of the parameters for all ranks of a node, in shared memory, instead of one a rank. All ranks must live on one node.
  bool one_copy_per_node = false;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(ShardedOptimizerOptions& options, OptionVisitor& visitor);

/// Updates on each rank only that rank's share of the parameters, with that share of the reduced gradients, and gathers the parameters: an
/// optimizer's state takes 1/P of its memory on each of P ranks, and its arithmetic 1/P of the time. The result is that of the unsharded optimizer.
///
/// Rules that treat each element for itself (SGD, Adam, AdamW, RMSprop, Adagrad) work on slices (Sharding::slices); others that treat each tensor for
/// itself on whole tensors (Sharding::tensors). LBFGS, which needs all parameters at once, is refused.
///
/// Parameters of half precision get master weights: each rank keeps its share in float32, which its optimizer updates, and the parameters are that,
/// rounded. An element that you change in the parameters is changed in the master weights by the next step. Let DataParallel or the Reducer
/// check_finite, and call step(scaler).
///
/// Memory a rank, for n bytes of parameters and k n bytes of optimizer state on P ranks: parameters n (n/P with one_copy_per_node); gradients n, or
/// n/P and the buckets in flight when they are released; state k n/P. Bytes that a rank contributes to a step: n reduced and n/P gathered.
/// Ref: Rajbhandari et al. 2020, ZeRO, stages 1 and 2.
class ShardedOptimizer {
 public:
  /// Collective. The parameters move into new memory; whatever else is a view of their old memory no longer is one of them. Where a parameter is
  /// moved again, such as by torch::load(), the next step takes its values over.
  /// @param reducer borrowed; sharded; see DataParallel::reducer(). @param parameters those that the reducer was made for, equal on all ranks.
  /// @throws ContractError on every rank, naming ranks and option or parameter, when the ranks' options or parameters differ.
  ShardedOptimizer(Reducer& reducer, std::vector<NamedTensor> parameters, const OptimizerFactory& make, const ShardedOptimizerOptions& options = {});
  ~ShardedOptimizer();
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  /// Updates the parameters with what the last step of the reducer gave, divided by `loss_scale`. Collective.
  /// @throws ContractError unless the reducer has done one step, no more and no less, since the last update.
  void step(double loss_scale = 1);
  /// For a loss that was multiplied by scaler.scale(): skips the update on all ranks alike when gradients overflowed, and updates the scaler.
  /// Collective. @return whether parameters were updated
  bool step(LossScaler& scaler);
  /// Leaves out an update. Local.
  void skip();
  /// Between the backward pass and step(): scales the reduced gradients as clip_gradient_norm() does, for a norm that is not the same in every step.
  /// Collective. @param loss_scale by which the gradients are too large @return the norm of gradients / loss_scale
  double clip_gradient_norm(double max_norm, double loss_scale = 1);
  /// Drops the parameters' gradients, as far as a pass under no_sync() left some.
  void zero_grad();

  /// This rank's optimizer, over its pieces: for learning rates. Groups and their order are the factory's.
  torch::optim::Optimizer& local() noexcept { return *optimizer_; }
  /// The 2-norm of all gradients of the last step(), before it was cut down. Needs ShardedOptimizerOptions::max_gradient_norm.
  double gradient_norm() const noexcept { return gradient_norm_; }
  /// Over all updates: how long this rank did nothing but gather parameters.
  Seconds exposed_time() const noexcept { return exposed_time_; }
  /// Over all updates: what this rank gave to gatherings.
  int64_t payload_bytes() const noexcept { return payload_bytes_; }

  /// What local() updates, and where it lies in the parameters: for OptimizerState.
  std::vector<OptimizedTensor> optimized() const;
  /// This rank's slices of the master weights, called master/PARAMETER, for checkpoints. Empty unless there are parameters of half precision.
  std::vector<NamedShard> master_shards() const;

 private:
  /// What this rank updates of one parameter.
  struct Piece {
    ShardPiece where;
    at::Tensor tensor;     // what the optimizer updates
    at::Tensor gradient;   // its gradient
    at::Tensor reduced;    // part of the reducer's share; `gradient` itself unless there are master weights
    at::Tensor parameter;  // part of the parameters; `tensor` itself unless there are master weights
  };

  void move_parameters();
  void make_pieces();
  void expect_reduced_once() const;
  void take_over_moved();
  void take_over_changed() const;
  void update(double loss_scale);
  double clip(double max_norm, at::Tensor Piece::* gradient);
  void gather();

  Reducer& reducer_;
  std::vector<NamedTensor> parameters_;
  ShardedOptimizerOptions options_;
  std::vector<FlatBuffer> buffers_;  // the parameters, by bucket
  std::vector<Piece> pieces_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  int64_t steps_ = 0;  // of the reducer, when the last update was made or left out
  double gradient_norm_ = 0;
  Seconds exposed_time_{0};
  int64_t payload_bytes_ = 0;
};

}  // namespace tw
