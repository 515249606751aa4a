// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <tw/base/clock.hpp>
#include <tw/data_parallel/fwd.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// `reduction` must be chosen. Sparse embeddings of a module are found; in a list of parameters they are named.
using DataParallelOptions = ReducerOptions;

class GradientPlaceholders;

/// Makes a model train on all ranks of a communicator: from its construction on, every rank holds rank 0's parameters and buffers, and when
/// `loss.backward()` returns, every parameter's `.grad()` is the reduced gradient. The optimizer and its calls stay as they are.
///
/// Every rank runs the same number of backward passes. Gradients accumulate over several passes as LibTorch's own do. A parameter that takes
/// no part in a pass on any rank keeps its gradient as it is; one that takes part on some ranks counts as zero on the others. A rank on which none
/// takes part calls join_backward() instead. See join() for ranks whose inputs end earlier.
/// `.grad()` is a view of a buffer that lives as long as this object or the gradient; `zero_grad()` may drop it, it comes back. Sharded gradients
/// are not in `.grad()`, and what takes one throws: a ShardedOptimizer uses them, one pass a step.
///
/// Several models may take part in one backward(), each wrapped for itself, in the same order on all ranks; a parameter belongs to one DataParallel.
/// Replicas are compared as they go, on CPUs, by a few elements a pass: where ranks did not make the same updates, such as by an optimizer that
/// decides by the loss of one rank (see reduced()), that pass or a later one throws a ContractError on all of them. A difference below sqrt(epsilon)
/// of the largest element is none.
///
/// What changes the model comes before this: its dtype or device, parameters that are added, layers that were frozen and are trained. The first
/// gradient of a step finds such a change, and backward() throws a ContractError that names the parameter. Layers that are frozen later take no part.
///
/// After construction, each rank has its own buffers; checkpoints use rank 0's, and synchronize() copies them to all, such as before an evaluation.
///
/// Backward passes on one thread at a time, which ThreadLevel must let communicate. Not for `backward(create_graph = true)`, whose graph is dropped.
/// Recomputation by backward passes inside the backward pass goes with no_sync() and join_backward(), since a layer may be used by several of them;
/// tw::recomputed() needs nothing.
///
/// A backward pass that throws may be caught: call zero_grad(), leave the update out, and go on with the next batch. The next pass of that rank, or
/// join_backward(), ends the failed one, and backward() then throws an Error on the ranks that waited for it. (A pass that throws before the first
/// gradient has not begun: call join_backward() in its place.)
///
/// Along other axes of a mesh, ranks hold one model in parts. Parameters that several of them hold, such as the plain layers next to tensor-parallel
/// ones, must begin equal, and get the same gradients bit by bit; see ReducerOptions::parts.
class DataParallel {
 public:
  /// Collective. @param comm duplicated, so that messages cannot mix. @param module borrowed parameters; must keep them while this lives.
  /// @throws ContractError on every rank, naming ranks and parameter, when the ranks' models or reductions differ.
  DataParallel(const Communicator& comm, const torch::nn::Module& module, const DataParallelOptions& options);

  /// The same for parameters from anywhere; those that require no gradient are only synchronised.
  DataParallel(const Communicator& comm, const std::vector<NamedTensor>& parameters, const DataParallelOptions& options);

  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// While the result lives, backward passes are local: gradients accumulate on this rank, in the buckets unless they are sharded or sparse, and the
  /// next pass without it, or join_backward(), reduces their sum. On every rank alike. For Reduction::sample_weighted the losses of all passes up to
  /// that one make up the mean over the samples that set_samples() gave.
  class NoSync;
  [[nodiscard]] NoSync no_sync();

  /// Takes part in a backward pass of the other ranks, for a rank without one of its own; its share is what it accumulated under no_sync(), or zero.
  /// Collective with their backward(). @throws Error on all ranks after a backward pass of this rank that threw, whose share is lost
  void join_backward();

  /// How many samples this rank's loss averages over in the backward passes to come; may be 0. Needed by Reduction::sample_weighted before the
  /// first pass; holds until it is set again.
  void set_samples(int64_t samples);

  /// Sends a signal to all ranks with the next backward pass; see Reducer::vote().
  void vote(int kind);
  /// How many ranks gave notice `kind` with the last backward pass.
  int64_t notices(int kind) const;
  /// Whether the gradients of the last backward pass are finite; the same on all ranks. Needs DataParallelOptions::check_finite.
  bool gradients_finite() const noexcept;

  /// Calls these on this rank with every pass that reduces: when its first gradient is there, and when all are reduced, before backward() returns.
  void observe_passes(std::function<void()> begin, std::function<void()> end);

  /// Time, over all passes, in which this rank did nothing but communicate.
  Seconds exposed_time() const noexcept;
  const BucketPlan& plan() const noexcept;
  /// What reduces the gradients of parameters(), in their order; for ShardedOptimizer and for figures.
  Reducer& reducer() noexcept;
  const Reducer& reducer() const noexcept;
  /// The trained parameters, each once.
  const std::vector<NamedTensor>& parameters() const noexcept;

 private:
  friend class FullySharded;
  /// For values that are equal already, or not there.
  struct NoInitialBroadcast {
    std::shared_ptr<GradientPlaceholders> placeholders;  // in `.grad()`, since gradients are sharded
    std::function<void()> before_reduction;              // called with every pass that reduces, when this rank has all of its gradients
  };
  DataParallel(const NoInitialBroadcast& no_broadcast, const Communicator& comm, const torch::nn::Module& module, const DataParallelOptions& options);
  DataParallel(const NoInitialBroadcast& no_broadcast, const Communicator& comm, const std::vector<NamedTensor>& parameters,
               const DataParallelOptions& options);

  class Hooks;
  std::shared_ptr<Hooks> hooks_;  // shared with autograd, which may run a hook after this object is gone
};

/// See DataParallel::no_sync(). Move-only; may outlive the DataParallel.
class DataParallel::NoSync {
 public:
  explicit NoSync(std::shared_ptr<Hooks> hooks);
  NoSync(NoSync&&) noexcept = default;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync();

 private:
  std::shared_ptr<Hooks> hooks_;
};

}  // namespace tw
