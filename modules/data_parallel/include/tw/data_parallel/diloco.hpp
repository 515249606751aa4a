// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/clock.hpp>
#include <tw/base/option.hpp>
#include <tw/data_parallel/fwd.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_shard.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

class PeriodicAverage;
class WrappedModelCheck;

/// In which precision outer gradients travel. They are summed in float32 at least.
enum class OuterPrecision {
  full,      ///< that of the parameters
  float16,   ///< 11 bits of precision, magnitudes up to 65504
  bfloat16,  ///< 8 bits of precision, the magnitudes of float32
};

struct DiLoCoOptions {
  int64_t period = 50;               ///< inner steps from one outer step to the next; at least 1. The paper has 500
  double outer_learning_rate = 0.7;  ///< positive
  double outer_momentum = 0.9;       ///< at least 0, below 1
  bool nesterov = true;              ///< needs outer_momentum
  OuterPrecision outer_precision = OuterPrecision::full;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(DiLoCoOptions& options, OptionVisitor& visitor);

/// DiLoCo: every rank trains on its own with the user's optimizer (the inner one; AdamW in the paper), and every `period` steps one outer step
/// follows. With a the parameters after the last outer step (the anchor) and x_r those of rank r of P now,
///
///     g = mean over r of (a - x_r)          the outer gradient
///     m = outer_momentum m + g
///     a = a - outer_learning_rate (nesterov ? g + outer_momentum m : m),      and x_r = a on every rank,
///
/// as torch::optim::SGD defines it. With learning rate 1 and no momentum it is LocalSgd. Three further copies of the parameters are kept (anchor,
/// momentum, buckets), two without momentum.
///
/// ```
/// DiLoCo outer(comm, *model, {.period = 100});
/// for (...) { optimizer.zero_grad(); loss.backward(); optimizer.step(); outer.step(); }
/// outer.finish();
/// ```
/// From its construction on every rank holds rank 0's parameters and buffers; buffers are each rank's own from then on (see average()). Every rank
/// calls step() equally often; see join() for uneven inputs.
/// Ref: Douillard et al. 2023, "DiLoCo: distributed low-communication training of language models", arXiv 2311.08105, Algorithm 1.
class DiLoCo {
 public:
  /// Collective. @param comm duplicated. @param module its parameters that require a gradient are trained; must keep them while this lives.
  /// @throws ContractError on every rank: naming ranks and parameter or option when they differ, the wrong field of `options`, or a complex
  ///         parameter, which cannot travel in half precision.
  DiLoCo(const Communicator& comm, const torch::nn::Module& module, const DiLoCoOptions& options = {});

  /// The same for tensors from anywhere; those that require no gradient are only synchronised.
  DiLoCo(const Communicator& comm, const std::vector<NamedTensor>& tensors, const DiLoCoOptions& options = {});

  ~DiLoCo();
  DiLoCo(const DiLoCo&) = delete;
  DiLoCo& operator=(const DiLoCo&) = delete;

  /// To be called after the inner optimizer's step, with the parameters that there were from the beginning: a ContractError names one that was
  /// converted, or is trained and was not. Makes an outer step when `period` inner ones were made since the last: one all-reduce per dtype
  /// and 25 MiB. Collective then. @return whether it did
  bool step();
  /// Makes an outer step unless the last step did. Collective. @return whether it did
  bool finish();

  /// Anchor, momentum and the count of inner steps, for checkpoints; equal on all ranks. They share memory, so loading restores them. The parameters
  /// are the caller's: as OnReshard::mean the ranks' own values come back, or their mean at another number of ranks. Make this object first and load
  /// then.
  std::vector<NamedShard> shards() const;

  /// Bytes of the buffers that are kept for averages.
  int64_t buffer_bytes() const noexcept;
  /// Bytes that this rank gave to all-reduces so far.
  int64_t bytes_communicated() const noexcept;
  /// How long this rank did nothing but communicate.
  Seconds exposed_time() const noexcept;

 private:
  void outer_step();
  void update(size_t id, const at::Tensor& mean_delta);

  DiLoCoOptions options_;
  std::unique_ptr<WrappedModelCheck> wrapped_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> anchors_;  // by parameter
  std::vector<at::Tensor> momenta_;  // by parameter; none without momentum
  std::unique_ptr<PeriodicAverage> average_;
};

}  // namespace tw
