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
  ModelPartsList parts = {};  ///< see ReducerOptions::parts; those of a module are found
};

/// An optimizer whose step() reduces the gradients over all ranks first, as Horovod does it. Backward passes are left as they are: several of them
/// may accumulate before a step, gradients may be changed or made by hand. DataParallel reduces during the backward pass instead.
///
/// ```
/// torch::optim::Adam adam(model->parameters());
/// DistributedOptimizer optimizer(comm, adam, *model, {.reduction = Reduction::mean});
/// for (...) { optimizer.zero_grad(); loss.backward(); optimizer.step(); }
/// ```
/// From its construction on, every rank holds rank 0's parameters and buffers; for the optimizer's own state see synchronize(). Every rank calls
/// step() equally often, and zero_grad() between two steps.
class DistributedOptimizer {
 public:
  /// Collective. @param comm duplicated. @param optimizer borrowed; one whose step() needs no closure. Its learning rate and groups stay open to the
  /// caller, its parameters not. @param module names all parameters of `optimizer`, and may have more, which are only synchronised.
  /// @throws ContractError on every rank: naming ranks and parameter or reduction when they differ, or a parameter of `optimizer` that is none of the
  ///         module's.
  DistributedOptimizer(const Communicator& comm, torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                       const DistributedOptimizerOptions& options);

  /// The same for parameters from anywhere.
  DistributedOptimizer(const Communicator& comm, torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                       const DistributedOptimizerOptions& options);

  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// How many samples this rank's loss averages over in the step to come; may be 0. Needed by Reduction::sample_weighted before the first step; holds
  /// until it is set again.
  void set_samples(int64_t samples);

  /// Reduces all gradients and makes the optimizer's step. Collective. A gradient that is missing on this rank counts as zero, and stays missing if
  /// it is missing on all, so that the optimizer passes the parameter over. Afterwards `.grad()` is the reduced gradient: a view of a buffer that
  /// keeps its place. @throws ContractError, naming the parameter, where one was converted since the construction, or is trained and was frozen
  /// then, and where the optimizer got further ones.
  void step();

  /// The optimizer's own.
  void zero_grad(bool set_to_none = true);

  /// Over all steps: how long this rank did nothing but communicate.
  Seconds exposed_time() const noexcept;
  const BucketPlan& plan() const noexcept;

 private:
  Communicator comm_;
  torch::optim::Optimizer& optimizer_;
  Reduction reduction_;
  std::optional<int64_t> samples_;
  std::unique_ptr<WrappedModelCheck> wrapped_;  // what the optimizer updates
  std::vector<NamedTensor> parameters_;         // those that are reduced
  size_t members_;                              // of the optimizer
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace tw
