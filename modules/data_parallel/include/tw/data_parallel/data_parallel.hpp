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

/// `reduction` must be chosen. Sparse embeddings of a module are detected; for a list of parameters, name them in `sparse`.
using DataParallelOptions = ReducerOptions;

class GradientPlaceholders;

/// Trains a model on all ranks of a communicator. Construction copies rank 0's parameters and buffers to every rank. From then on, when
/// `loss.backward()` returns, every parameter's `.grad()` is the reduced gradient. Optimizer code stays unchanged.
///
/// Every rank runs the same number of backward passes. Gradients accumulate over several passes as usual in LibTorch. If no rank uses a parameter in
/// a pass, its gradient stays unchanged; if some ranks use it, it counts as zero on the others. A rank that uses no parameter calls join_backward()
/// instead. See join() for ranks whose inputs end earlier. `.grad()` is a view of a buffer that lives as long as this object or the gradient; after
/// `zero_grad()` drops it, the next pass sets it again. Sharded gradients are not in `.grad()`, and code that uses `.grad()` then throws: a
/// ShardedOptimizer uses them, one pass per step.
///
/// Several models may take part in one backward(), each wrapped separately, in the same order on all ranks; a parameter belongs to one DataParallel.
/// On CPUs, each pass compares a few elements of the replicas. If ranks made different updates, such as by an optimizer that depends on one rank's
/// loss (see reduced()), this or a later pass throws a ContractError on all ranks. Differences below sqrt(epsilon) of the largest element are
/// ignored.
///
/// Change the model before wrapping it: its dtype or device, its parameters, which layers are trained. The first gradient of a step detects a later
/// change, and backward() throws a ContractError that names the parameter. Layers may be frozen later.
///
/// After construction, each rank has its own buffers. Checkpoints use rank 0's; call synchronize() to copy them to all ranks, such as before an
/// evaluation.
///
/// Run backward passes on one thread at a time, which ThreadLevel must allow to communicate. `backward(create_graph = true)` is not supported: the
/// graph is dropped. If you recompute activations by backward passes inside the backward pass, use no_sync() and join_backward(), because several of
/// these passes may use one layer. tw::recomputed() needs no extra care.
///
/// One rank may fail in a step, such as for want of memory, and all go on: make the step by train_step().
///
/// Outside of train_step(), you may catch an exception of a backward pass: call zero_grad(), skip the update, and continue with the next batch. That
/// rank's next pass, or join_backward(), ends the failed one; backward() then throws an Error on the ranks that waited for it. (If the exception came
/// before the first gradient, the pass has not begun: call join_backward() in its place.)
///
/// Along other axes of a mesh, ranks hold one model in parts. Parameters that several of these ranks hold, such as plain layers next to
/// tensor-parallel ones, must begin equal. Their gradients are then equal bit for bit; see ReducerOptions::parts.
class DataParallel {
 public:
  /// Collective. @param comm duplicated, so that messages cannot mix. @param module must keep its parameters during this object's lifetime.
  /// @throws ContractError on every rank, naming ranks and parameter, when the ranks' models or reductions differ.
  DataParallel(const Communicator& comm, const torch::nn::Module& module, const DataParallelOptions& options);

  /// The same for a list of parameters; those that require no gradient are only synchronised.
  DataParallel(const Communicator& comm, const std::vector<NamedTensor>& parameters, const DataParallelOptions& options);

  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Makes a step that may fail. Returns the result of `f()`, which computes the loss and calls backward(), perhaps several times. If `f` throws on
  /// one rank, `f` ends on all ranks: there with its own exception, on the others, which wait for that rank, with a RevokedError that has its
  /// message. You may catch these; call zero_grad(), skip the update, and make the next step as if this one had not been: parameters, the buffers of
  /// a module and the state of reductions are as before it. Gradients are dropped, those from earlier passes, too. Random numbers that you drew stay
  /// drawn.
  ///
  /// ```
  /// try {
  ///   parallel.train_step([&] { loss_of(model->forward(x)).backward(); });
  ///   optimizer.step();
  /// } catch (const std::exception& error) { ... }
  /// optimizer.zero_grad();
  /// ```
  /// What communicates within the model on its own, such as split layers or SyncBatchNorm, is not ended. Collective; costs no message.
  /// @throws ContractError on every rank if a step has failed and no other can follow: gradients are sharded, or compressed with residuals
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

  /// Makes backward passes local while the result exists: gradients accumulate on this rank (in the buckets, unless sharded or sparse). The next pass
  /// without it, or join_backward(), reduces their sum. Call it on every rank alike. For Reduction::sample_weighted, the losses of all passes up to
  /// that one must add up to the mean over the samples passed to set_samples().
  class NoSync;
  [[nodiscard]] NoSync no_sync();

  /// Takes part in the other ranks' backward pass, for a rank that runs none. It contributes what it accumulated under no_sync(), or zero. Collective
  /// with their backward(). @throws Error on all ranks if this rank's last backward pass threw, because its gradients are lost
  void join_backward();

  /// Begins an update of several passes: gradients that are there, and equal on all ranks, count once, also if somebody has written to them since
  /// they were reduced. Without it, what was written counts as this rank's share of the next pass. Local. @return ends the update when dropped
  [[nodiscard]] std::shared_ptr<void> update();
  /// From now on, a backward pass to the parameters outside of an update() throws ContractError with the message `otherwise`. Local.
  void only_in_updates(std::string otherwise);

  /// Sets the number of samples that this rank's loss averages over, for all later backward passes; may be 0. Reduction::sample_weighted needs it
  /// before the first pass.
  void set_samples(int64_t samples);

  /// Whether the gradients of the last backward pass are finite; the same on all ranks. Needs DataParallelOptions::check_finite.
  bool gradients_finite() const noexcept;

  /// Total time, over all passes, that this rank only communicated.
  Seconds exposed_time() const noexcept;
  const BucketPlan& plan() const noexcept;
  /// The reducer of the gradients of parameters(), in their order; for ShardedOptimizer and for statistics.
  Reducer& reducer() noexcept;
  const Reducer& reducer() const noexcept;
  /// The trained parameters, each once.
  const std::vector<NamedTensor>& parameters() const noexcept;

 private:
  friend class FullySharded;
  /// Skips the initial broadcast: values are already equal, or have no memory.
  struct NoInitialBroadcast {
    std::shared_ptr<GradientPlaceholders> placeholders;  // stored in `.grad()`, because gradients are sharded
    std::function<void()> begin;                         // called in every pass that reduces, at this rank's first gradient
    std::function<void()> before_reduction;              // once this rank has all its gradients
    std::function<void()> end;                           // when all gradients are reduced, before backward() returns
  };
  DataParallel(const NoInitialBroadcast& no_broadcast, const Communicator& comm, const torch::nn::Module& module, const DataParallelOptions& options);
  DataParallel(const NoInitialBroadcast& no_broadcast, const Communicator& comm, const std::vector<NamedTensor>& parameters,
               const DataParallelOptions& options);

  /// @return ends the step when dropped
  std::shared_ptr<void> begin_step();
  void fail_step();
  /// For FullySharded. Collective. @param comm the same ranks, after this object's communicator was revoked
  void restart_over(const Communicator& comm);
  void drop_gradients();

  class Hooks;
  std::shared_ptr<Hooks> hooks_;  // shared with autograd, which may run a hook after this object's destruction
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
