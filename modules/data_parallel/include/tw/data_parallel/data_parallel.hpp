// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/data_parallel/fwd.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

struct DataParallelOptions {
  Reduction reduction;  ///< must be chosen
  BucketOptions buckets = {};
  /// See ReducerOptions::overlap.
  std::optional<bool> overlap = {};
  /// See ReducerOptions::check_finite.
  bool check_finite = false;
  /// See ReducerOptions::on_bucket.
  decltype(ReducerOptions::on_bucket) on_bucket = {};
};

/// Makes a model train on all ranks of a communicator: from its construction on, every rank holds rank 0's parameters and buffers, and when
/// `loss.backward()` returns, every parameter's `.grad()` is the reduced gradient. The optimizer and its calls stay as they are.
///
/// Every rank runs the same number of backward passes. Gradients accumulate over several passes as LibTorch's own do. A parameter that takes
/// no part in a pass on any rank keeps its gradient as it is; one that takes part on some ranks counts as zero on the others.
/// `.grad()` is a view of a buffer that lives as long as this object or the gradient; `zero_grad()` may drop it, it comes back.
///
/// Backward passes on one thread at a time; if one throws, make a new DataParallel before the next. Not for `backward(create_graph = true)`, whose
/// graph is dropped.
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

  /// How many samples this rank's loss averages over in the backward passes to come; may be 0. Needed by Reduction::sample_weighted before the
  /// first pass; holds until it is set again.
  void set_samples(int64_t samples);

  /// A word to all ranks that travels with the next backward pass; see Reducer::give_notice().
  void give_notice(int kind);
  /// How many ranks gave notice `kind` with the last backward pass.
  int64_t notices(int kind) const;
  /// Whether the gradients of the last backward pass are finite; the same on all ranks. Needs DataParallelOptions::check_finite.
  bool gradients_finite() const noexcept;

  /// Over all passes: how long this rank did nothing but communicate.
  Seconds exposed_time() const noexcept;
  const BucketPlan& plan() const noexcept;

 private:
  class Hooks;
  DataParallel(const Communicator& comm, const std::vector<NamedTensor>& trained, const std::vector<NamedTensor>& synchronised,
               const DataParallelOptions& options);
  std::shared_ptr<Hooks> hooks_;  // shared with autograd, which may run a hook after this object is gone
};

}  // namespace tw
