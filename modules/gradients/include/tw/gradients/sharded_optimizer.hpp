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

/// Makes an optimizer over this rank's pieces of the parameters. A piece has its parameter's name and one dimension (with Sharding::tensors, the
/// parameter's shape). A rank may have no pieces.
using OptimizerFactory = std::function<std::unique_ptr<torch::optim::Optimizer>(const std::vector<NamedTensor>& pieces)>;

/// Makes optimizers with the kind, groups and options of `prototype`, which is an SGD, Adam, AdamW, RMSprop or Adagrad over `parameters`.
/// @throws ContractError for other kinds, for a prototype that has made steps, and for a parameter that is in no group of the prototype; the message
/// names the parameter.
/// @param prototype borrowed by the result.
OptimizerFactory optimizer_like(const torch::optim::Optimizer& prototype, const std::vector<NamedTensor>& parameters);
OptimizerFactory optimizer_like(const torch::optim::Optimizer&& prototype, const std::vector<NamedTensor>& parameters) = delete;

struct ShardedOptimizerOptions {
  /// Maximum gradient norm: if the norm is larger, all gradients are scaled down before an update. The norm is the 2-norm of all gradients of the
  /// model, each element counted once, even if the model is in parts (ReducerOptions::parts). 0: no clipping.
  double max_gradient_norm = 0;
  /// One copy of the parameters for all ranks of a node, in shared memory, instead of one per rank. All ranks must be on one node.
  bool one_copy_per_node = false;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(ShardedOptimizerOptions& options, OptionVisitor& visitor);

/// Updates on each rank only its share of the parameters, with its share of the reduced gradients, then gathers the parameters. Compared with an
/// unsharded optimizer, on P ranks, the state takes 1/P of the memory per rank and the update 1/P of the time. The result is the same.
///
/// Element-wise rules (SGD, Adam, AdamW, RMSprop, Adagrad) work on slices (Sharding::slices). Rules that need whole tensors work with
/// Sharding::tensors. LBFGS, which needs all parameters at once, is not supported.
///
/// Half-precision parameters get master weights: each rank keeps its share in float32. The optimizer updates the master weights, and the parameters
/// are their rounded values. If you change an element of the parameters, the next step copies it to the master weights. To scale the loss, set
/// ReducerOptions::check_finite, and call step(scaler).
///
/// Memory per rank, for n bytes of parameters and k * n bytes of optimizer state on P ranks:
///
///     parameters         n, or n / P with one_copy_per_node
///     gradients          n; with ReducerOptions::release, n / P and the buckets in flight
///     optimizer state    k * n / P
///
/// Each step, a rank contributes n bytes to reductions and n / P bytes to all-gathers.
/// Ref: Rajbhandari et al. 2020, ZeRO, stages 1 and 2.
class ShardedOptimizer {
 public:
  /// Collective. The parameters move into new memory, so views of the old memory no longer refer to them. If a parameter is moved again, such as by
  /// torch::load(), the next step uses its new values, or throws with one_copy_per_node.
  /// @param reducer borrowed; must be sharded; see DataParallel::reducer(). @param parameters the parameters that the reducer was made for, equal on
  /// all ranks.
  /// @throws ContractError on every rank, naming ranks and option or parameter, when the ranks' options or parameters differ.
  ShardedOptimizer(Reducer& reducer, std::vector<NamedTensor> parameters, const OptimizerFactory& make, const ShardedOptimizerOptions& options = {});
  ~ShardedOptimizer();
  ShardedOptimizer(const ShardedOptimizer&) = delete;
  ShardedOptimizer& operator=(const ShardedOptimizer&) = delete;

  /// Updates the parameters with the gradients of the reducer's last step, divided by `loss_scale`. Collective.
  /// @throws ContractError unless the reducer has made exactly one step since the last update.
  void step(double loss_scale = 1);
  /// For a loss that was multiplied by scaler.scale(): divides the gradients by the scale and updates the parameters, or skips the update on all
  /// ranks if gradients overflowed. Then adjusts the scaler. Collective.
  /// @return whether parameters were updated
  bool step(LossScaler& scaler);
  /// Skips the update of this step: the next step() needs newly reduced gradients. Local.
  void skip();
  /// Scales the reduced gradients as tw::clip_gradient_norm() does. Call it between the backward pass and step() if the maximum norm differs from
  /// step to step. Collective. @param loss_scale the factor by which the loss was multiplied @return the norm of gradients / loss_scale
  double clip_gradient_norm(double max_norm, double loss_scale = 1);
  /// Drops gradients that passes under no_sync() left in the parameters.
  void zero_grad();

  /// This rank's optimizer over its pieces, such as for setting learning rates. It has the groups that the factory made, in the same order.
  torch::optim::Optimizer& local() noexcept { return *optimizer_; }
  /// The 2-norm of all gradients of the last step(), before clipping. Needs ShardedOptimizerOptions::max_gradient_norm.
  double gradient_norm() const noexcept { return gradient_norm_; }
  /// Total time, over all updates, that this rank spent only on gathering parameters.
  Seconds exposed_time() const noexcept { return exposed_time_; }
  /// Bytes that this rank has contributed to all-gathers so far.
  int64_t payload_bytes() const noexcept { return payload_bytes_; }

  /// The tensors that local() updates, and their places in the parameters, for OptimizerState.
  std::vector<OptimizedTensor> optimized() const;
  /// This rank's slices of the master weights, called master/PARAMETER, for checkpoints. Empty without half-precision parameters.
  std::vector<NamedShard> master_shards() const;

 private:
  /// This rank's piece of one parameter.
  struct Piece {
    ShardPiece where;
    at::Tensor tensor;     // updated by the optimizer
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
  int64_t steps_ = 0;  // number of the reducer's steps at the last update, made or skipped
  double gradient_norm_ = 0;
  Seconds exposed_time_{0};
  int64_t payload_bytes_ = 0;
};

}  // namespace tw
