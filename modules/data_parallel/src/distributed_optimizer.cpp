// SPDX-License-Identifier: Apache-2.0
#include "batch_norm_reductions.hpp"
#include "module_tensors.hpp"
#include "reduce_gradients.hpp"
#include "reducer_hook.hpp"
#include "wrapped_model_check.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/data_parallel/distributed_optimizer.hpp>
#include <tw/data_parallel/synchronize.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <unordered_set>

namespace tw {
namespace {

using Identities = std::unordered_set<const c10::TensorImpl*>;

size_t number_of_parameters(torch::optim::Optimizer& optimizer) {
  size_t count = 0;
  for (const auto& group : optimizer.param_groups()) count += group.params().size();
  return count;
}

// Why `optimizer` does not fit the `named` tensors; empty if it does.
std::string misfit(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& named) {
  Identities known;
  for (const NamedTensor& tensor : named) known.insert(tensor.tensor.unsafeGetTensorImpl());
  for (size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& members = optimizer.param_groups()[group].params();
    for (size_t i = 0; i < members.size(); ++i) {
      if (known.contains(members[i].unsafeGetTensorImpl())) continue;
      return concat("parameter ", i, " of group ", group, " (", dtype_name(members[i].scalar_type()), " ", shape_text(members[i].sizes().vec()),
                    ") is not one of the ", named.size(), " named parameters");
    }
  }
  return {};
}

// The tensors that `optimizer` updates, with names. Collective.
std::vector<NamedTensor> updated(const Communicator& comm, torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& named) {
  on_all_ranks(comm, "making a DistributedOptimizer", [&] {
    const std::string problem = misfit(optimizer, named);
    TW_EXPECTS(problem.empty(), "the optimizer was built over different parameters: ", problem, "; build it over the parameters of the final model");
  });
  Identities own;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) own.insert(parameter.unsafeGetTensorImpl());
  }
  std::vector<NamedTensor> parameters = named;
  std::erase_if(parameters, [&](const NamedTensor& parameter) { return !own.contains(parameter.tensor.unsafeGetTensorImpl()); });
  return parameters;
}

DistributedOptimizerOptions with_parts(const torch::nn::Module& module, DistributedOptimizerOptions options) {
  if (options.parts.empty()) options.parts = model_parts(module);
  return options;
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(const Communicator& comm, torch::optim::Optimizer& optimizer, const torch::nn::Module& module,
                                           const DistributedOptimizerOptions& options)
    : DistributedOptimizer(comm, optimizer, tensors_of_replica(comm, module), with_parts(module, options)) {
  expect_batch_norms_for(module, options.reduction);
}

DistributedOptimizer::DistributedOptimizer(const Communicator& comm, torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters,
                                           const DistributedOptimizerOptions& options)
    : comm_(comm.dup()),
      optimizer_(optimizer),
      reduction_(options.reduction),
      wrapped_(std::make_unique<WrappedModelCheck>("DistributedOptimizer", updated(comm_, optimizer, parameters))),
      parameters_(trained(wrapped_->tensors())),
      members_(number_of_parameters(optimizer)) {
  // All gradients exist when step() begins, so there is nothing to overlap with.
  const ReducerOptions of_reducer{.reduction = options.reduction,
                                  .buckets = options.buckets,
                                  .overlap = false,
                                  .parts = options.parts,
                                  .device = device_of(comm_, "a DistributedOptimizer", parameters_)};
  reducer_ = std::make_unique<Reducer>(comm_, specs_of(parameters_), of_reducer);
  synchronize(comm_, parameters);
  expect_equal_replicas(options.parts, parameters);
}

DistributedOptimizer::~DistributedOptimizer() = default;

void DistributedOptimizer::set_samples(int64_t samples) {
  TW_EXPECTS(samples >= 0, "a rank cannot have ", samples, " samples");
  samples_ = samples;
}

void DistributedOptimizer::step() {
  TW_EXPECTS(reduction_ != Reduction::sample_weighted || samples_.has_value(), "Reduction::sample_weighted needs set_samples() before the step");
  wrapped_->expect_unchanged();
  for (const auto& [name, parameter] : parameters_) {
    TW_EXPECTS(reductions_of(parameter).empty(), "the gradient of ", name,
               " is already reduced by a DataParallel in backward passes: call step() of the optimizer itself, or make no DataParallel");
  }
  TW_EXPECTS(number_of_parameters(optimizer_) == members_, "the optimizer has ", number_of_parameters(optimizer_), " parameters, but had ", members_,
             " when DistributedOptimizer was made: add parameters before that");
  {
    const at::NoGradGuard no_grad;
    reduce_gradients(*reducer_, parameters_, samples_.value_or(1));
    for (int64_t id = 0; id < reducer_->size(); ++id) {
      if (reducer_->used(id)) set_gradient(parameters_[static_cast<size_t>(id)].tensor, reducer_->gradient(id));
    }
  }
  optimizer_.step();
}

void DistributedOptimizer::zero_grad(bool set_to_none) { optimizer_.zero_grad(set_to_none); }

Seconds DistributedOptimizer::exposed_time() const noexcept { return reducer_->exposed_time(); }
const BucketPlan& DistributedOptimizer::plan() const noexcept { return reducer_->plan(); }

}  // namespace tw
