// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <tw/base/clock.hpp>
#include <tw/data_parallel/fwd.hpp>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/gradients/model_parts.hpp>
#include <tw/gradients/reduction.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

class Reducer;
class WrappedModelCheck;

struct DistributedOptimizerOptions {
  Reduction reduction;  ///< must be chosen
  BucketOptions buckets = {};
  ModelPartsList parts = {};  ///< see ReducerOptions::parts; detected for a module
};

/// An optimizer whose step() first reduces the gradients over all ranks, as in Horovod. Backward passes stay local: several may accumulate before a
/// step, and you may change gradients or compute them by hand. DataParallel reduces during the backward pass instead.
///
/// ```
/// torch::optim::Adam adam(model->parameters());
/// DistributedOptimizer optimizer(comm, adam, *model, {.reduction = Reduction::mean});
/// for (...) { optimizer.zero_grad(); loss.backward(); optimizer.step(); }
/// ```
/// Construction copies rank 0's parameters and buffers to every rank; to copy the optimizer's state, call synchronize(). Every rank must call step()
/// the same number of times, and zero_grad() between steps.
class DistributedOptimizer {
 public:
  /// Collective. @param comm duplicated. @param optimizer borrowed; its step() must need no closure. You may change the options of its groups, such
  /// as learning rates, but not its parameters. @param module contains all parameters of `optimizer`; other parameters of `module` are only copied
  /// from rank 0.
  /// @throws ContractError on every rank. It names the ranks and the parameter or option that differs, or a parameter of `optimizer` that is not in
  /// `module`.
  DistributedOptimizer(const Communicator& comm, torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                       const DistributedOptimizerOptions& options);

  /// The same for a list of parameters.
  DistributedOptimizer(const Communicator& comm, torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                       const DistributedOptimizerOptions& options);

  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// Sets the number of samples that this rank's loss averages over, for all later steps; may be 0. Reduction::sample_weighted needs it before the
  /// first step.
  void set_samples(int64_t samples);

  /// Reduces all gradients and makes the optimizer's step. Collective. A gradient that is missing on this rank counts as zero. If all ranks miss it,
  /// it stays missing, and the optimizer skips the parameter. Afterwards `.grad()` is the reduced gradient, a view of a permanent buffer.
  /// @throws ContractError naming a parameter that was converted since construction, that was frozen then and is trained now, or whose gradient a
  /// DataParallel reduces; also if parameters were added to the optimizer.
  void step();

  /// Calls the optimizer's zero_grad().
  void zero_grad(bool set_to_none = true);

  /// Total time, over all steps, that this rank spent only on communication.
  Seconds exposed_time() const noexcept;
  const BucketPlan& plan() const noexcept;

 private:
  Communicator comm_;
  torch::optim::Optimizer& optimizer_;
  Reduction reduction_;
  std::optional<int64_t> samples_;
  std::unique_ptr<WrappedModelCheck> wrapped_;  // checks the optimizer's parameters
  std::vector<NamedTensor> parameters_;         // the reduced ones
  size_t members_;                              // number of the optimizer's parameters
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace tw
