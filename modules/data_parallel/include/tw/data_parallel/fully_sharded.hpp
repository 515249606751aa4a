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
  /// Largest size of a unit, which is consecutive parameters of one dtype; exceeded only by a single larger parameter.
  int64_t unit_bytes = int64_t{25} << 20;
  /// Names of submodules, such as "blocks.3", whose parameters are units of their own, or several where they are larger than unit_bytes. The others
  /// form units in their order.
  std::vector<std::string> units = {};
  /// Number of units to gather before they are used, in the order of the previous pass. Use 0 on one node: copying occupies the cores that compute.
  int prefetch_units = 0;
  /// Bytes of units, the smallest ones, that stay gathered until their slices change; they are gathered once a step. Where all units of a model
  /// are in memory anyway (one or two units), they stay gathered.
  int64_t resident_bytes = 0;
  /// One copy of the parameters for all ranks of a node, in shared memory, which is all the time there: n/P a rank where all ranks are on one node,
  /// as they must be, and nothing is gathered. On several nodes: shard over the ranks of each, with FullyShardedSetup::replicas between them.
  bool one_copy_per_node = false;
  /// Parameters are gathered in this dtype, and gradients reduced in it, for slices that keep theirs: bfloat16 or float16 of a float32 model, which
  /// takes and sends half as many bytes. Unset: in their own. Not for one_copy_per_node.
  std::optional<c10::ScalarType> compute_dtype = {};
  bool check_finite = false;  ///< see gradients_finite()

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(FullyShardedOptions& options, OptionVisitor& visitor);

/// Optional arguments of a FullySharded. Borrowed.
struct FullyShardedSetup {
  /// Ranks that have the same slices as this one: several groups of ranks each shard the model, and their gradients are reduced over these (HSDP),
  /// such as the nodes of a cluster with P the ranks of one. Duplicated.
  const Communicator* replicas = nullptr;
  /// Initial values of parameters without memory. Used by the constructor alone.
  const InitialValues* initial = nullptr;
};

/// Trains a model of which each rank keeps 1/P: of parameters, gradients and what an optimizer remembers. The model's code stays as it is: parameters
/// are the tensors that they were, without memory; before an operator of LibTorch takes one, in a forward pass or in autograd's, its unit is
/// gathered, and released when operators take others. Gradients are reduced into slices as they come.
///
/// ```
/// FullySharded sharded(comm, *model, {.reduction = Reduction::mean});
/// torch::optim::AdamW optimizer(sharded.slices(), 1e-3);
/// loss_of(model->forward(x)).backward();   // on every rank, with its samples
/// optimizer.step();
/// optimizer.zero_grad();
/// ```
/// For rules that treat each element for itself: SGD, Adam, AdamW, RMSprop, Adagrad. Gradients accumulate over passes, in slices.
///
/// Memory a rank, for n bytes of parameters and k n of optimizer state: (n + n + k n) / P, two units and prefetch_units more, and activations. In a
/// step, a rank contributes 3 n / P bytes: to two gatherings, and to one reduction, which takes n.
///
/// All ranks must use units in the same order. The order may change between steps, which costs gathering ahead. If ranks use different units, also in
/// an evaluation, all of them throw before the use, and the message lists which rank used which unit; a rank that waits elsewhere gets a RevokedError
/// with the same message. The object cannot be used afterwards. Unsupported: pointers into parameters that were obtained while these were gathered,
/// and changes of parameters in place (change the slices instead). Exceptions for these name a parameter.
///
/// `.grad()` of a parameter holds no gradient: what takes it throws, such as an optimizer over the module's parameters, and so does a norm of a
/// slice's gradient alone, such as clip_grad_norm_() computes. zero_grad() of the module drops the gradients of the slices at the next backward pass.
/// Graphs that saved a parameter cannot be run once its slices have changed: LibTorch throws. Sparse gradients are refused. One thread at a time,
/// and passes as for DataParallel. Ref: Zhao et al. 2023, arXiv 2304.11277; Rajbhandari et al. 2020, ZeRO, stage 3, arXiv 1910.02054.
class FullySharded {
 public:
  /// Collective. Every rank gets rank 0's parameters and buffers, and keeps its slices of the parameters. @param comm duplicated. @param module
  /// borrowed parameters; they have no memory of their own any more, even after this. @throws ContractError on every rank, naming ranks and
  /// parameter, when the ranks' models or options differ
  FullySharded(const Communicator& comm, const torch::nn::Module& module, const FullyShardedOptions& options, const FullyShardedSetup& more = {});
  /// The same for parameters from anywhere; those that require no gradient are gathered, and not trained.
  FullySharded(const Communicator& comm, const std::vector<NamedTensor>& parameters, const FullyShardedOptions& options,
               const FullyShardedSetup& more = {});
  ~FullySharded();
  FullySharded(const FullySharded&) = delete;
  FullySharded& operator=(const FullySharded&) = delete;

  /// This rank's slices, for an optimizer: one for each trained parameter, in their order, shape [n], n >= 0. After a backward pass `.grad()` is the
  /// reduced gradient of the slice. The optimizer is to update all on every rank.
  std::vector<at::Tensor> slices() const;
  /// The same with the names of their parameters.
  const std::vector<NamedTensor>& named_slices() const noexcept;
  /// Scales gradients down to `max_norm`, the 2-norm of all of them, each element once: those of all ranks, along the axis of split layers too.
  /// Collective. (LibTorch's clip_grad_norm_ would see this rank's slices alone.) @return the norm before
  double clip_gradient_norm(double max_norm);
  /// Whether the gradients of the last backward pass are finite; the same on all ranks. Needs FullyShardedOptions::check_finite.
  bool gradients_finite() const noexcept;

  /// Call this after slices were written by other means than LibTorch's operators: gathered values are out of date. On all ranks alike; local.
  void slices_changed();
  /// What slices() updates, and where it lies in the parameters: for OptimizerState.
  std::vector<OptimizedTensor> optimized() const;
  /// This rank's slices of all parameters, the frozen ones too, for checkpoints; shares memory.
  std::vector<NamedShard> shards() const;

  /// The DataParallel that reduces gradients; for figures, and for passes of several losses.
  DataParallel& parallel() noexcept;
  const DataParallel& parallel() const noexcept;
  /// Time, over all passes, in which this rank did nothing but communicate.
  Seconds exposed_time() const noexcept;
  /// Bytes, over all passes, that this rank sent into collectives.
  int64_t payload_bytes() const noexcept;
  /// Bytes of the buffers that are kept for gathered units; 0 where there is one copy a node.
  int64_t buffer_bytes() const noexcept;
  /// Number of units gathered so far, and number of those that were not yet gathered when they were used.
  int64_t gatherings() const noexcept;
  int64_t blocking_gathers() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
