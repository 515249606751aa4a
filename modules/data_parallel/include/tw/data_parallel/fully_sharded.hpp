// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/base/option.hpp>
#include <tw/data_parallel/fwd.hpp>
#include <tw/gradients/reduction.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

class DataParallel;
class InitialValues;

struct FullyShardedOptions {
  Reduction reduction;  ///< must be chosen
  /// Maximum bytes of a unit when gathered. A unit is a group of consecutive parameters of one dtype that are gathered and released together. Only a
  /// unit of a single parameter may be larger.
  int64_t unit_bytes = int64_t{25} << 20;
  /// Names of submodules, such as "blocks.3", with at least one trained parameter each. The trained parameters of each form a separate unit (several
  /// units if larger than unit_bytes). The other trained parameters form units in order, and so do all frozen ones.
  std::vector<std::string> units = {};
  /// Number of units to prefetch, in the order of the previous pass. Use 0 on a single node, where the cores that compute also make the copies.
  int prefetch_units = 0;
  /// Maximum total bytes of the units that stay gathered until their slices change; these are gathered only once per step. The smallest units are
  /// chosen first. If the model has at most 1 + max(prefetch_units, 1) units, all of them stay gathered, because they fit into the buffers for
  /// gathered units anyway.
  int64_t resident_bytes = 0;
  /// Keep one permanent copy of the parameters in the node's shared memory, instead of gathering units. For n bytes of parameters on P ranks, the
  /// copy takes n / P bytes per rank. All ranks of the communicator must be on one node. On several nodes, shard over the ranks of each node, and use
  /// FullyShardedSetup::replicas between nodes.
  bool one_copy_per_node = false;
  /// dtype in which parameters are gathered and gradients reduced; slices keep the parameters' dtype. bfloat16 or float16 for a float32 model halves
  /// the bytes of gathered units and messages. Unset: the parameters' dtype. Must be unset with one_copy_per_node.
  std::optional<c10::ScalarType> compute_dtype = {};
  bool check_finite = false;  ///< see FullySharded::gradients_finite()

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(FullyShardedOptions& options, OptionVisitor& visitor);

/// Optional arguments of a FullySharded. Borrowed during construction.
struct FullyShardedSetup {
  /// The ranks that hold the same slices as this rank, for hybrid sharding (HSDP): each group of ranks, such as those of a node, shards the model,
  /// and gradients are reduced over `replicas`, too. Duplicated.
  const Communicator* replicas = nullptr;
  /// Initial values of parameters without memory. Only the constructor uses them.
  const InitialValues* initial = nullptr;
};

/// Trains a model of which each of P ranks keeps 1/P of the parameters, gradients and optimizer state. The model's code stays unchanged: parameters
/// are the same tensors, but without memory. Before a LibTorch operator uses a parameter, in a forward or backward pass, the parameter's unit is
/// gathered. The unit is released when operators use other units. Gradients are reduced into slices as soon as they are ready.
///
/// ```
/// FullySharded sharded(comm, *model, {.reduction = Reduction::mean});
/// torch::optim::AdamW optimizer(sharded.slices(), 1e-3);
/// loss_of(model->forward(x)).backward();   // on every rank, with its samples
/// optimizer.step();
/// optimizer.zero_grad();
/// ```
/// Works with element-wise update rules: SGD, Adam, AdamW, RMSprop, Adagrad. Gradients accumulate over passes, in slices.
///
/// Memory per rank, for n bytes of parameters and k * n bytes of optimizer state:
///
///     slices           (n + n + k * n) / P for parameters, gradients and optimizer state
///     gathered units   1 + max(prefetch_units, 1) units, and those that stay gathered
///     other            buckets of gradients that are being reduced, and activations
///
/// Per step, a rank contributes n / P bytes to all-gathers twice (forward and backward pass), and n bytes to reductions once.
///
/// All ranks must use units in the same order. The order may change from one step to the next; in a step with a new order, units are gathered when
/// they are used, not prefetched. If ranks use different units, even in an evaluation, all of them throw before the operator runs; the message lists
/// each rank's unit by the name of the unit's first parameter. A rank that waits elsewhere gets a RevokedError with the same message. After such an
/// error the object cannot be used any more, unless it happened in a train_step(). Two things are not supported: to keep a pointer into a parameter
/// after its unit was released, and to change a parameter in place, which throws an error that names the parameter or one of the same unit (change
/// the slices instead).
///
/// `.grad()` of a parameter holds no gradient. Code that uses it throws, such as an optimizer over the module's parameters. LibTorch's
/// clip_grad_norm_() on the gradients of slices throws, too. After zero_grad() of the module, the next backward pass drops the slices' gradients. An
/// autograd graph that saved a parameter cannot run backward after the parameter's slices have changed: LibTorch throws. Sparse gradients are not
/// supported. Use the object from one thread at a time; for backward passes, the rules of DataParallel apply.
/// Ref: Zhao et al. 2023, arXiv 2304.11277; Rajbhandari et al. 2020, ZeRO, stage 3, arXiv 1910.02054.
class FullySharded {
 public:
  /// Collective. Every rank gets rank 0's parameters and buffers, and keeps its slices of the parameters. @param comm duplicated. @param module its
  /// parameters are borrowed, and lose their memory for good: destroying this object does not restore it. @throws ContractError on every rank, naming
  /// ranks and parameter, if the ranks' models or options differ
  FullySharded(const Communicator& comm, const torch::nn::Module& module, const FullyShardedOptions& options, const FullyShardedSetup& setup = {});
  /// The same for a list of parameters; those that require no gradient are gathered, but not trained.
  FullySharded(const Communicator& comm, const std::vector<NamedTensor>& parameters, const FullyShardedOptions& options,
               const FullyShardedSetup& setup = {});
  ~FullySharded();
  FullySharded(const FullySharded&) = delete;
  FullySharded& operator=(const FullySharded&) = delete;

  /// This rank's slices, for an optimizer: one for each trained parameter, in the parameters' order, of shape [n], n >= 0. After a backward pass,
  /// `.grad()` of a slice is its reduced gradient. The optimizer must update all slices on every rank.
  std::vector<at::Tensor> slices() const;
  /// slices() with the names of their parameters.
  const std::vector<NamedTensor>& named_slices() const noexcept;
  /// Scales gradients down until their 2-norm is at most `max_norm`. The norm counts each element of the model's gradients once, whichever rank holds
  /// it, parts of split layers included. Collective. (LibTorch's clip_grad_norm_() would use this rank's slices only, so it throws.) @return the norm
  /// before scaling
  double clip_gradient_norm(double max_norm);
  /// Whether the gradients of the last backward pass are finite; the same on all ranks. Needs FullyShardedOptions::check_finite.
  bool gradients_finite() const noexcept;

  /// Runs a step that may fail on one rank, like DataParallel::train_step(): `f()` computes the loss and calls backward(). If `f` throws on one rank,
  /// the step ends on all ranks. You can then run the next step: the buffers of a module are as before the failed step, and so are slices, unless `f`
  /// writes them. All gradients are dropped, including those of earlier passes. Collective; it sends messages of its own only if the previous step
  /// failed.
  template <class F>
  auto train_step(const F& f) {
    const std::shared_ptr<void> step = begin_step();
    try {
      return f();
    } catch (...) {
      fail_step();
      throw;
    }
  }
  /// Continues after a failure has revoked the communicator, with another communicator of the same ranks. Slices and optimizer stay valid; gradients
  /// are dropped. Collective. @param comm as in the constructor. @param replicas as FullyShardedSetup::replicas
  void restart_over(const Communicator& comm, const Communicator* replicas = nullptr);

  /// Marks gathered values as out of date. Call it on all ranks after you have written slices by other means than LibTorch's operators. Local.
  void slices_changed();
  /// The slices and their places in the parameters, for OptimizerState.
  std::vector<OptimizedTensor> optimized() const;
  /// This rank's slices of all parameters, the frozen ones too, for checkpoints; shares memory.
  std::vector<NamedShard> shards() const;

  /// Begins an update of several passes, like DataParallel::update(). A gradient that you write to a parameter's `.grad()` after this is this rank's
  /// share of the next pass.
  [[nodiscard]] std::shared_ptr<void> update();

  /// The DataParallel that reduces gradients, for its statistics, no_sync() and join_backward().
  DataParallel& parallel() noexcept;
  const DataParallel& parallel() const noexcept;
  /// Total time, over all passes, that this rank spent only on communication.
  Seconds exposed_time() const noexcept;
  /// Bytes that this rank has contributed to collectives so far.
  int64_t payload_bytes() const noexcept;
  /// Bytes of the buffers for gathered units; 0 with one_copy_per_node.
  int64_t buffer_bytes() const noexcept;
  /// Number of times that this rank has gathered a unit so far.
  int64_t gatherings() const noexcept;
  /// Number of gatherings() that began only when an operator used the unit.
  int64_t blocking_gathers() const noexcept;

 private:
  /// @return a handle; the step ends when the handle is destroyed
  std::shared_ptr<void> begin_step();
  void fail_step();

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
