// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tw/base/clock.hpp>
#include <tw/base/option.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/gradients/compressor.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/reduction.hpp>
#include <tw/gradients/shard_plan.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <vector>

namespace tw {

class BucketBuffers;
class BucketTransport;
class FiniteCheck;
class KnownMemory;
class Packing;
class Replicas;
class SideStream;

struct ReducerOptions {
  Reduction reduction;  ///< must be chosen
  BucketOptions buckets = {};
  /// Start each bucket's reduction as soon as the bucket's last gradient is ready, while other gradients are still being computed. If false, all
  /// reductions start in wait(). Unset: true only if the ranks span several nodes; on one node the cores are busy computing, and overlap gains
  /// nothing.
  std::optional<bool> overlap = {};
  /// Keep buckets in memory shared by the ranks of a node, where they are reduced without copies. Creating this memory takes a few milliseconds,
  /// which does not pay for a single step.
  bool shared_memory = true;
  /// Check whether the reduced gradients are finite, while they are scaled. See Reducer::finite().
  bool check_finite = false;
  /// Which ranks get the reduced gradients. Sharded gradients take half as much communication; a ShardedOptimizer uses them.
  Sharding sharding = Sharding::none;
  /// For sharded gradients: keep only this rank's share after wait() (ZeRO 2). A bucket then has memory only from its first gradient to the end of
  /// its reduction. The reduction begins as soon as this bucket and all earlier ones are complete, even if `overlap` is false. At most three buckets
  /// have memory at a time, in addition to this rank's share, unless the gradients of several buckets arrive interleaved. If false, buckets keep
  /// their memory (ZeRO 1).
  bool release = false;
  /// Ids of the dense gradients, in the order in which they become ready. Empty: descending ids. But with overlap, several buckets, no sharding and
  /// no compressor, rank 0 observes the order in the first step, and the buckets are then rebuilt in this order. Pass Reducer::arrival_order() of an
  /// earlier run to reproduce that run's results bit for bit.
  std::vector<int64_t> arrival_order = {};
  /// The group of each gradient: gradients of different groups share no bucket. Empty: one group.
  std::vector<int64_t> groups = {};
  /// The ranks that hold the model in parts, such as those along the mesh axis `tensor`. After a reduction, all holders of a replicated parameter get
  /// a copy of the first holder's gradient. Without the copy, their gradients may differ in rounding, because the order of additions depends on an
  /// element's place in its bucket. The copy is a broadcast, so all holders must run the same steps. DataParallel finds the parts of a module.
  ModelPartsList parts = {};
  /// Names of sparse gradients, such as those of embeddings: only the rows that have a gradient are sent.
  std::vector<std::string> sparse = {};
  /// Lossy compression; see compression.hpp. Buckets are then never rebuilt. With Reduction::sample_weighted, reductions begin in wait(), because
  /// residuals must be weighted too.
  std::shared_ptr<Compressor> compressor = {};
  /// The device of gradients and buckets. Gradients on an accelerator must be dense; they are packed and sent on a separate stream.
  c10::Device device = c10::Device(c10::kCPU);
  /// Callback with the begin and end time of each bucket's reduction on this rank, for timelines.
  std::function<void(int64_t bucket, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)> on_bucket = {};
};
void visit(ReducerOptions& options, OptionVisitor& visitor);

/// Reduces a fixed set of gradients over the ranks, once per step, in buckets.
///
/// ```
/// Reducer reducer(comm, specs, {.reduction = Reduction::mean});
/// reducer.begin();
/// for (id ...) { compute the gradient; reducer.mark_ready(id, gradient); }   // any order, may differ between ranks
/// reducer.wait();                                                            // reducer.gradient(id) is now the same on all ranks
/// ```
/// DataParallel and the replicas of a pipeline's stage use it. Gradients keep their memory from step to step (but see ReducerOptions::release),
/// except once, when buckets are rebuilt. Ranks that share memory sum in rank order; otherwise MPI chooses the order. Identical runs on the same
/// number of ranks, with the same arrival order, have results that are equal bit for bit.
class Reducer {
 public:
  /// Collective. @param comm borrowed; must outlive this object, and carry no other collective between begin() and wait().
  /// @param gradients the gradients to reduce, the same on all ranks; floating point or complex. The id of a gradient is its index.
  /// @throws ContractError on every rank, naming ranks and gradient, when the ranks' `gradients` or options differ.
  Reducer(const Communicator& comm, std::vector<TensorSpec> gradients, const ReducerOptions& options);
  Reducer(Communicator&&, std::vector<TensorSpec>, const ReducerOptions&) = delete;
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// Begins a step. If an exception ended the previous step, begin() first calls end_failed_step(). @param samples the number of this rank's samples,
  /// n_r of Reduction::sample_weighted. If it is 0 on all ranks, all gradients become zero. Other reductions ignore it.
  void begin(int64_t samples = 1);

  /// Ends a step that an exception interrupted on this rank. This rank's dense gradients become zero, unless buckets are released. On the other
  /// ranks, wait() throws. Collective with their wait().
  void end_failed_step();

  /// Continues after a failed step. First replace what comm() refers to by another communicator of the same ranks; see StepCommunicator. restart()
  /// then drops the failed step and rebuilds everything that uses comm(). Gradients get new memory; plan() and steps() do not change. Collective.
  /// @throws ContractError if why_no_restart() is not empty
  void restart();
  /// Why restart() is impossible after a failed step; empty if it is possible.
  std::string why_no_restart() const;

  /// Marks gradient `id` as complete. @param value the gradient, with the shape and dtype of its spec, on ReducerOptions::device. Unless `value` is
  /// `gradient(id)` itself, it is copied: on the CPU at once, on an accelerator when all gradients of its bucket are marked. Do not change `value`
  /// before that.
  void mark_ready(int64_t id, const at::Tensor& value);
  /// Marks a gradient that this rank does not have in this step: it counts as zero.
  void mark_unused(int64_t id);

  /// Sends a vote to all ranks with this step, at no extra cost. After wait(), votes() returns how many ranks voted. Call vote() before wait(), which
  /// clears this rank's vote. @param kind 0 or 1; you define the meaning.
  void vote(int kind);
  /// Sets this rank's fingerprint of the step, which is also sent with the step. After wait(), fingerprints_agree() reports whether all ranks set the
  /// same one. The last call before wait() counts; the default is 0.
  void set_step_fingerprint(uint64_t mark) noexcept { step_fingerprint_ = mark; }

  /// Ends the step; every gradient must have been marked. Collective. Afterwards gradient(id), or shard(bucket), holds the reduced gradients.
  /// @throws Error if the step failed on another rank. That rank's contribution is missing, so skip this update; the next begin() works as usual
  void wait();
  /// Whether a step has begun and not ended.
  bool in_step() const noexcept { return in_step_; }

  /// The buffer of a gradient: contiguous, of the spec's shape. After wait() it holds the reduced gradient; if sharded, only this rank's pieces are
  /// valid. For a sparse gradient it is the result of the last wait(). @throws ContractError if the gradient has no memory: it is sparse and not
  /// reduced yet, or was released (ReducerOptions::release)
  const at::Tensor& gradient(int64_t id) const;
  /// This rank's share of a bucket of sharded gradients, shape [numel]: a slice, or the whole bucket. Undefined if this rank has no share.
  at::Tensor shard(int64_t bucket) const;
  /// Adds the memory that this object keeps from step to step, except for gradients that are not sharded.
  void account(KnownMemory& known) const;
  /// This rank's pieces of sharded gradients, in the order in which they lie in the buckets.
  std::vector<ShardPiece> pieces() const;

  int64_t size() const noexcept { return static_cast<int64_t>(specs_.size()); }
  const std::vector<TensorSpec>& specs() const noexcept { return specs_; }
  const Communicator& comm() const noexcept { return comm_; }
  const ReducerOptions& options() const noexcept { return options_; }
  /// Whether gradient `id` is one of ReducerOptions::sparse.
  bool is_sparse(int64_t id) const { return sparse_.at(static_cast<size_t>(id)) != 0; }
  /// Whether gradient `id` was marked in the current or, between steps, in the last step.
  bool marked(int64_t id) const;
  /// After wait(): whether any rank had gradient `id` in this step.
  bool used(int64_t id) const;
  /// After wait(): number of ranks that voted `kind` in this step.
  int64_t votes(int kind) const;
  /// After wait(): whether all ranks set the same fingerprint. The probability that different fingerprints count as equal is 2^-40.
  bool fingerprints_agree() const noexcept { return fingerprints_agree_; }
  /// After wait(): whether all reduced gradients are finite; the same on all ranks. Needs ReducerOptions::check_finite.
  bool finite() const noexcept { return finite_; }
  /// Number of steps that wait() has ended.
  int64_t steps() const noexcept { return steps_; }
  /// Total time, over all steps, that this rank spent only on communication.
  Seconds exposed_time() const noexcept { return exposed_time_; }
  /// Bytes that this rank has contributed to reductions and all-gathers so far. On the wire, an all-reduce of n bytes moves up to 2 * n bytes per
  /// rank, and a sharded reduction n bytes.
  int64_t payload_bytes() const noexcept { return payload_bytes_; }
  const BucketPlan& plan() const noexcept { return plan_; }
  /// The arrival order used by the plan; see ReducerOptions::arrival_order. Empty: unknown.
  const std::vector<int64_t>& arrival_order() const noexcept { return arrival_order_; }

 private:
  enum class Mark : uint8_t { none, ready, unused };

  /// The ranks' combined status of a step.
  struct Status {
    double samples = 0;  ///< number of samples on all ranks
    double unused = 0;   ///< number of missing gradients, summed over the ranks
    double failed = 0;   ///< number of ranks on which an exception ended the step
    std::array<double, 2> votes{};
    std::array<double, 4> mark{};  ///< sum over the ranks of each half of the fingerprint, and of its square
  };

  /// How far a bucket has come in this step.
  struct Progress {
    int64_t missing = 0;  // gradients not yet marked
    bool launched = false;
    BucketSum sum = {};
    std::chrono::steady_clock::time_point began = {};
  };

  void make_step();
  void make_buckets();
  size_t bucket_of(int64_t id) const { return static_cast<size_t>(plan_.placements[static_cast<size_t>(id)].bucket); }
  int64_t reduce(bool failed_here);
  void expect_unmarked(int64_t id) const;
  void mark(int64_t id, Mark mark);
  void complete(size_t bucket);
  void launch_ready_buckets();
  void launch(size_t bucket);
  void launch_weighted(double factor);
  void release_reduced_buckets();
  void limit_buckets_in_flight(size_t next);
  Work begin_exchange(bool failed_here);
  Status end_exchange();
  void finish_bucket(size_t bucket, double factor, FiniteCheck& check);
  void reduce_sparse(double factor, FiniteCheck& check);
  void agree_on_finite();
  double factor_before_sum() const;
  double factor_after_sum(const Status& status) const;
  void agree_on_unused();
  void follow_arrival_order();

  const Communicator& comm_;
  std::vector<TensorSpec> specs_;
  ReducerOptions options_;
  std::vector<uint8_t> sparse_;  // by gradient
  bool overlap_ = false;
  std::vector<int64_t> arrival_order_;  // as passed, or as observed
  BucketPlan plan_;
  std::unique_ptr<SideStream> side_;
  std::unique_ptr<BucketBuffers> buffers_;
  std::unique_ptr<Packing> packing_;  // null on the CPU, where a gradient is copied while it is in the cache
  std::unique_ptr<BucketTransport> transport_;
  std::unique_ptr<Replicas> replicas_;  // null where no parameter is replicated
  std::vector<Progress> progress_;      // by bucket
  at::Tensor status_;                   // memory of begin_exchange(), which may outlive this object when a step fails
  at::Tensor used_;                     // by gradient

  int64_t samples_ = 1;
  bool in_step_ = false;
  bool failed_ = false;            // an exception ended the step on this rank
  std::vector<Mark> marks_;        // by gradient
  std::vector<int64_t> arrivals_;  // ids in order of arrival in this step
  size_t launched_ = 0;            // number of buckets whose reduction has begun in this step
  std::vector<at::Tensor> rows_;   // this rank's sparse gradients, by gradient
  std::vector<at::Tensor> sums_;   // sparse gradients summed over all ranks, by gradient
  std::array<double, 2> my_votes_{};
  std::array<double, 2> votes_{};
  uint64_t step_fingerprint_ = 0;
  bool fingerprints_agree_ = true;
  bool finite_ = true;
  int64_t steps_ = 0;
  Seconds exposed_time_{0};
  int64_t payload_bytes_ = 0;
};

}  // namespace tw
