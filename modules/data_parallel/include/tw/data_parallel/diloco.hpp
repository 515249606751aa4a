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

/// Precision in which outer gradients are sent. Sums are computed in at least float32.
enum class OuterPrecision {
  full,      ///< the parameters' precision
  float16,   ///< 11 bits of precision, magnitudes up to 65504
  bfloat16,  ///< 8 bits of precision, the range of float32
};

struct DiLoCoOptions {
  int64_t period = 50;               ///< inner steps per outer step; at least 1. The DiLoCo paper uses 500
  double outer_learning_rate = 0.7;  ///< positive
  double outer_momentum = 0.9;       ///< at least 0, below 1
  bool nesterov = true;              ///< Nesterov momentum; needs outer_momentum > 0
  OuterPrecision outer_precision = OuterPrecision::full;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(DiLoCoOptions& options, OptionVisitor& visitor);

/// DiLoCo: every rank trains on its own with the user's optimizer (the inner optimizer; AdamW in the paper). After every `period` inner steps, one
/// outer step follows. Let a be the parameters after the last outer step (the anchor), and x_r the current parameters of rank r:
///
///     g = mean over r of (a - x_r)          the outer gradient
///     m = outer_momentum * m + g
///     a = a - outer_learning_rate * (nesterov ? g + outer_momentum * m : m),      and x_r = a on every rank,
///
/// as in torch::optim::SGD. With outer_learning_rate = 1, outer_momentum = 0 and nesterov = false, DiLoCo equals LocalSgd. Each rank keeps three
/// extra copies of the parameters (anchor, momentum, buckets), or two without momentum.
///
/// ```
/// DiLoCo outer(comm, *model, {.period = 100});
/// for (...) { optimizer.zero_grad(); loss.backward(); optimizer.step(); outer.step(); }
/// outer.finish();
/// ```
/// Construction copies rank 0's parameters and buffers to every rank; after that, each rank has its own buffers (see average()). Every rank must call
/// step() the same number of times; see join() for uneven inputs.
/// Ref: Douillard et al. 2023, "DiLoCo: distributed low-communication training of language models", arXiv 2311.08105, Algorithm 1.
class DiLoCo {
 public:
  /// Collective. @param comm duplicated. @param module the parameters that require a gradient are trained; `module` must keep them during this
  /// object's lifetime.
  /// @throws ContractError on every rank. It names the ranks and the parameter or option that differs, the wrong field of `options`, or a complex
  /// parameter that would be sent in half precision.
  DiLoCo(const Communicator& comm, const torch::nn::Module& module, const DiLoCoOptions& options = {});

  /// The same for a list of tensors; those that require no gradient are only copied from rank 0.
  DiLoCo(const Communicator& comm, const std::vector<NamedTensor>& tensors, const DiLoCoOptions& options = {});

  ~DiLoCo();
  DiLoCo(const DiLoCo&) = delete;
  DiLoCo& operator=(const DiLoCo&) = delete;

  /// Call this after each step of the inner optimizer. After `period` inner steps it makes an outer step, which is collective: one all-reduce per
  /// bucket of outer gradients of one dtype (default BucketOptions). The parameters must be the same as at construction: a ContractError names one
  /// that was converted since, or that was frozen then and is trained now.
  /// @return whether it made an outer step
  bool step();
  /// Makes an outer step if step() was called after the last outer step. Collective. @return whether it did
  bool finish();

  /// Anchor, momentum and the number of inner steps since the last outer step, for checkpoints; equal on all ranks. The shards share this object's
  /// memory, so loading into them restores this object. The parameters are not included: save them with OnReshard::mean, which restores each rank's
  /// values, or their mean if the number of ranks differs. Construct this object before loading.
  std::vector<NamedShard> shards() const;

  /// Bytes of this rank's buckets for averaging.
  int64_t buffer_bytes() const noexcept;
  /// Bytes that this rank has contributed to all-reduces so far.
  int64_t bytes_communicated() const noexcept;
  /// Total time that this rank spent only on communication.
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
