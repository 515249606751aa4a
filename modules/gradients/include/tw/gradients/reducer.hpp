// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/gradients/reduction.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <vector>

namespace tw {

struct ReducerOptions {
  Reduction reduction;  ///< must be chosen
  BucketOptions buckets = {};
  /// Start each bucket's all-reduce as soon as its last gradient is ready, while others are still computed. Otherwise all start in
  /// wait(). Unset: only when the ranks live on several nodes; on one node the cores are busy computing and overlap gains nothing.
  std::optional<bool> overlap = {};
  /// Keep buckets in memory that the ranks of a node share, where they are reduced without being copied. Making it takes some milliseconds: not for a
  /// Reducer of a single step.
  bool shared_memory = true;
  /// Look whether the reduced gradients are finite, in the pass that scales them.
  bool check_finite = false;
  /// Told when a bucket's all-reduce began and ended on this rank, for timelines.
  std::function<void(int64_t bucket, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)> on_bucket = {};
};

/// Reduces a fixed set of gradients over the ranks, once a step, in buckets.
///
/// ```
/// Reducer reducer(comm, specs, {.reduction = Reduction::mean});
/// reducer.begin();
/// for (id ...) { compute the gradient; reducer.mark_ready(id, gradient); }   // any order, may differ between ranks
/// reducer.wait();                                                            // reducer.gradient(id) is now the same on all ranks
/// ```
/// Its clients are autograd's hooks (`DataParallel`), pipeline replicas and layer-parallel sweeps. Gradients keep their memory from step
/// to step. Every rank sums a bucket in the order that MPI chooses; equal runs at an equal number of ranks give equal bits.
class Reducer {
 public:
  /// Collective. @param comm borrowed; must outlive this and carry no other collective between begin() and wait().
  /// @param gradients what will be reduced, the same on all ranks; float32 or float64. The id of a gradient is its index.
  /// @throws ContractError on every rank, naming ranks and gradient, when the ranks' `gradients` or reductions differ.
  Reducer(const Communicator& comm, std::vector<TensorSpec> gradients, const ReducerOptions& options);

  /// Begins a step. @param samples the n_r of Reduction::sample_weighted, ignored by the others.
  void begin(int64_t samples = 1);

  /// The gradient is complete where it is in `gradient(id)`.
  void mark_ready(int64_t id);
  /// The gradient is complete in `value`, of the same shape and dtype; it is copied.
  void mark_ready(int64_t id, const at::Tensor& value);
  /// This rank has no gradient `id` in this step: it counts as zero.
  void mark_unused(int64_t id);

  /// A word to all ranks that travels with the step and costs nothing: counted by notices() after wait(). @param kind 0 or 1; the caller gives them
  /// their meaning. Before wait(); forgotten with the next one.
  void give_notice(int kind);

  /// Ends the step: every gradient must have been marked. Collective. Afterwards gradient(id) holds the reduced gradients.
  void wait();

  /// The place of a gradient: contiguous, of the spec's shape, the same memory for ever.
  const at::Tensor& gradient(int64_t id) const;
  int64_t size() const noexcept { return static_cast<int64_t>(specs_.size()); }
  /// Whether gradient `id` is marked in the step that began last.
  bool marked(int64_t id) const;
  /// After wait(): whether any rank had gradient `id` in this step.
  bool used(int64_t id) const;
  /// After wait(): how many ranks gave notice `kind` in this step.
  int64_t notices(int kind) const;
  /// After wait(): whether all reduced gradients are finite; the same on all ranks. Needs ReducerOptions::check_finite.
  bool finite() const noexcept { return finite_; }
  /// Over all steps: how long this rank did nothing but communicate.
  Seconds exposed_time() const noexcept { return exposed_time_; }
  const BucketPlan& plan() const noexcept { return plan_; }

 private:
  enum class Mark : uint8_t { none, ready, unused };

  /// What the ranks must know of each other's step.
  struct Status {
    double samples = 0;  ///< of all ranks
    double unused = 0;   ///< gradients that some rank did not have
    std::array<double, 2> notices{};
  };

  void expect_unmarked(int64_t id) const;
  void mark(int64_t id, Mark mark);
  void launch_ready_buckets();
  Status exchange_status();
  void reduce_bucket(size_t bucket, double factor);
  double factor_before_sum() const;
  double factor_after_sum(const Status& status) const;
  void agree_on_unused();

  const Communicator& comm_;
  std::vector<TensorSpec> specs_;
  Reduction reduction_;
  bool overlap_;
  bool check_finite_;
  decltype(ReducerOptions::on_bucket) on_bucket_;
  BucketPlan plan_;
  std::vector<FlatBuffer> buffers_;  // by bucket
  std::vector<at::Tensor> views_;    // by gradient

  int64_t samples_ = 1;
  bool in_step_ = false;
  std::vector<Mark> marks_;       // by gradient
  std::vector<int64_t> missing_;  // by bucket: gradients not yet marked
  std::vector<Work> works_;       // of the buckets launched in this step
  std::vector<std::chrono::steady_clock::time_point> launched_;
  std::array<double, 2> my_notices_{};
  std::array<double, 2> notices_{};
  bool finite_ = true;
  std::vector<uint8_t> used_;  // by gradient
  Seconds exposed_time_{0};
};

}  // namespace tw
