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
  /// Of a unit: consecutive parameters of one dtype, at most this large unless a single one is larger.
  int64_t unit_bytes = int64_t{25} << 20;
  /// Names of submodules, such as "blocks.3", whose parameters are units of their own, or several where they are larger than unit_bytes. The others
  /// make units as they come.
  std::vector<std::string> units = {};
  /// Units to gather before they are taken, in the order of the pass before. 0 on one node, where copying is work for the cores that compute.
  int gather_ahead = 0;
  /// Units that stay gathered until their slices change, the smallest ones: so many bytes of them, which are gathered once a step. A model whose
  /// units are all in memory anyway, one or two, is kept.
  int64_t keep_bytes = 0;
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

/// What a FullySharded may be given besides. Borrowed.
struct FullyShardedSetup {
  /// Ranks that have the same slices as this one: several groups of ranks each shard the model, and their gradients are reduced over these (HSDP),
  /// such as the nodes of a cluster with P the ranks of one. Duplicated.
  const Communicator* replicas = nullptr;
  /// What parameters without memory begin with. Used by the constructor alone.
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
/// Memory a rank, for n bytes of parameters and k n of optimizer state: (n + n + k n) / P, two units and gather_ahead more, and activations. A rank
/// gives 3 n / P bytes to a step: of two gatherings, and of one reduction, which takes n.
///
/// The ranks' passes take units in the same order; they may take others at each step, which costs gathering ahead. Where ranks take different ones,
/// in an evaluation too, all throw before they use them, and say which took what; a rank that waits elsewhere gets a RevokedError that says the same.
/// The object cannot be used then. Not for pointers into parameters that were taken while they were gathered, nor for changes of parameters in place:
/// change the slices. What throws says so, by a parameter's name.
///
/// `.grad()` of a parameter holds no gradient: what takes it throws, such as an optimizer over the module's parameters, and so does a norm of a
/// slice's gradient alone, such as clip_grad_norm_() computes. zero_grad() of the module drops the gradients of the slices at the next backward pass.
/// Graphs that saved a parameter cannot be run once its slices have changed, which LibTorch says. Sparse gradients are refused. One thread at a time,
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

  /// Slices were written, by other means than LibTorch's operators: what is gathered is old. On all ranks alike; local.
  void slices_changed();
  /// What slices() updates, and where it lies in the parameters: for OptimizerState.
  std::vector<OptimizedTensor> optimized() const;
  /// This rank's slices of all parameters, the frozen ones too, for checkpoints; shares memory.
  std::vector<NamedShard> shards() const;

  /// What reduces gradients; for figures, and for passes of several losses.
  DataParallel& parallel() noexcept;
  const DataParallel& parallel() const noexcept;
  /// Over all passes: how long this rank did nothing but communicate.
  Seconds exposed_time() const noexcept;
  /// Over all passes: what this rank gave to collectives.
  int64_t payload_bytes() const noexcept;
  /// Of the room that stays for gathered units; 0 where there is one copy a node.
  int64_t room_bytes() const noexcept;
  /// Units gathered so far, and those of them that were not when they were taken.
  int64_t gatherings() const noexcept;
  int64_t late_gatherings() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
