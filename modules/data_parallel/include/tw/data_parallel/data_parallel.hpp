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

/// `reduction` must be chosen. Sparse embeddings of a module are detected; if you pass a list of parameters instead, name the sparse ones in
/// `sparse`.
using DataParallelOptions = ReducerOptions;

class GradientPlaceholders;

/// Trains a model on all ranks of a communicator. Construction copies rank 0's parameters and buffers to every rank. From then on, when
/// `loss.backward()` returns, every parameter's `.grad()` is the reduced gradient. Optimizer code stays unchanged.
///
/// Every rank must run the same number of backward passes. Gradients accumulate over several passes as usual in LibTorch. If no rank uses a parameter
/// in a pass, the parameter's gradient stays unchanged. If only some ranks use it, its gradient counts as zero on the others. A rank whose pass would
/// use no parameter calls join_backward() instead of backward(). See join() for ranks whose inputs end earlier. `.grad()` is a view of a flat buffer,
/// which lives until this object and all such views are gone. After `zero_grad()` has dropped `.grad()`, the next pass sets it again. Sharded
/// gradients (DataParallelOptions::sharding) are not in `.grad()`, and code that uses `.grad()` throws. A ShardedOptimizer uses them; each of its
/// steps needs exactly one pass that reduces.
///
/// Several models may take part in one backward(). Wrap each separately, in the same order on all ranks; a parameter may belong to one DataParallel
/// only. On CPUs, each pass compares a few elements of the replicas. If ranks made different updates, such as by an optimizer that depends on one
/// rank's loss (see reduced()), the next pass or a later one throws a ContractError on all ranks. Differences are ignored up to a fraction of the
/// parameter's largest element: sqrt(epsilon) for float32 and float64, 0.1 for half precision.
///
/// Make all changes of the model before you wrap it: dtype, device, parameters, and which layers are trained. A later change is detected at the first
/// gradient of the next pass: backward() throws a ContractError that names the parameter. You may still freeze layers later.
///
/// After construction, the module's buffers (running means, ...) develop separately on each rank. Checkpoints contain those of rank 0. To copy them
/// to all ranks, such as before an evaluation, call synchronize().
///
/// Run backward passes on one thread at a time; ThreadLevel must allow that thread to call MPI. `backward(create_graph = true)` is not supported: the
/// graph is dropped. If you recompute activations by backward passes inside the backward pass, several of the inner passes may use one layer: run the
/// outer pass under no_sync(), and call join_backward() after it. tw::recomputed() needs no extra care.
///
/// If a step may fail on one rank, for example because the rank runs out of memory, run the step in train_step(): all ranks can continue after the
/// failure.
///
/// Outside of train_step(), you may catch an exception of a backward pass: call zero_grad(), skip the update, and continue with the next batch. The
/// failed pass ends when the rank that failed begins its next pass or calls join_backward(): at that moment, backward() throws an Error on the ranks
/// that wait for the failed pass. (If the exception came before the first gradient, the pass has not begun: call join_backward() in its place.)
///
/// If `comm` is one axis of a mesh, the ranks along another axis may hold one model in parts. Parameters that several of these ranks hold, such as
/// those of plain layers next to tensor-parallel ones, must have equal initial values on all of them. Their reduced gradients are then equal bit for
/// bit; see ReducerOptions::parts.
class DataParallel {
 public:
  /// Collective. @param comm duplicated, so that its messages cannot mix with yours. @param module must keep the same parameters during this object's
  /// lifetime.
  /// @throws ContractError on every rank, naming ranks and parameter, when the ranks' models or options differ.
  DataParallel(const Communicator& comm, const torch::nn::Module& module, const DataParallelOptions& options);

  /// The same for a list of parameters; those that require no gradient are only copied from rank 0.
  DataParallel(const Communicator& comm, const std::vector<NamedTensor>& parameters, const DataParallelOptions& options);

  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// Runs a step that may fail. Returns the result of `f()`, which computes the loss and calls backward(), perhaps several times. If `f` throws on
  /// one rank, the step ends on all ranks: that rank throws its own exception, and the other ranks, which wait for it, throw a RevokedError with the
  /// same message. Catch these exceptions, call zero_grad(), skip the update, and run the next step. The buffers of a module and the state of
  /// reductions are then as before the failed step, and so are parameters, unless `f` writes them. All gradients are dropped, including those of
  /// earlier passes. Random generators are not restored.
  ///
  /// ```
  /// try {
  ///   parallel.train_step([&] { loss_of(model->forward(x)).backward(); });
  ///   optimizer.step();
  /// } catch (const std::exception& error) { ... }
  /// optimizer.zero_grad();
  /// ```
  /// Ranks that wait in the model's own communication, such as in split layers or SyncBatchNorm, are not woken. Collective; it sends messages of its
  /// own only if the previous step failed.
  /// @throws ContractError on every rank if an earlier step has failed and none can follow, because gradients are sharded or compressed with
  /// residuals
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
  /// after its destruction, or join_backward(), reduces their sum. Call no_sync() on all ranks. For Reduction::sample_weighted, the losses of all
  /// these passes, including the one that reduces, must add up to the mean over this rank's samples, whose number you pass to set_samples().
  class NoSync;
  [[nodiscard]] NoSync no_sync();

  /// Takes part in the other ranks' backward pass, on a rank that runs none. This rank contributes the gradients that it accumulated under no_sync(),
  /// or zeros. Collective with the other ranks' backward(). @throws Error on all ranks if this rank's last backward pass threw, because its gradients
  /// are lost
  void join_backward();

  /// Begins an update of several passes. The gradients that exist now must be equal on all ranks. Later reductions count them once, not once per
  /// rank, even if you have written to them since they were reduced. (Outside of an update, a gradient that you have written to counts as this rank's
  /// share of the next pass.) Local.
  /// @return a handle; the update ends when the handle is destroyed
  [[nodiscard]] std::shared_ptr<void> update();
  /// From now on, a backward pass that reaches the parameters outside of an update() throws ContractError with the message `otherwise`. Local.
  void only_in_updates(std::string otherwise);

  /// Sets the number of samples that this rank's loss averages over, for all later backward passes; may be 0. Reduction::sample_weighted needs it
  /// before the first pass.
  void set_samples(int64_t samples);

  /// Whether the gradients of the last backward pass are finite; the same on all ranks. Needs DataParallelOptions::check_finite.
  bool gradients_finite() const noexcept;

  /// Total time, over all passes, that this rank spent only on communication.
  Seconds exposed_time() const noexcept;
  const BucketPlan& plan() const noexcept;
  /// The reducer of the gradients; their ids are the indices of parameters(). For a ShardedOptimizer, and for statistics.
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

  /// @return a handle; the step ends when the handle is destroyed
  std::shared_ptr<void> begin_step();
  void fail_step();
  /// For FullySharded, after this object's communicator was revoked. Collective. @param comm another communicator of the same ranks
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
