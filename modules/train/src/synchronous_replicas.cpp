// SPDX-License-Identifier: Apache-2.0
#include "synchronous_replicas.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <tw/base/log.hpp>
#include <tw/comm/collectives.hpp>

namespace tw::train {
namespace {

// Drops an arrival order recorded for other gradients, i.e. with other layers frozen.
std::vector<int64_t> usable(const Communicator& comm, const std::vector<int64_t>& order, const Model& model) {
  if (model.is_in_parts()) return {};
  const auto trained = std::count_if(model.parameters.begin(), model.parameters.end(), [](const NamedTensor& p) { return p.tensor.requires_grad(); });
  if (order.empty() || order.size() + model.sparse.size() == static_cast<size_t>(trained)) return order;
  if (comm.rank() == 0) log_warning("the run to be resumed trained other parameters: the order in which gradients arrive is measured again");
  return {};
}

ReducerOptions in_parts(const StrategySetup& setup, ReducerOptions options) {
  if (setup.ranks.parts != nullptr) options.parts = {model_parts(*setup.ranks.parts, *setup.model.trained)};
  return options;
}

}  // namespace

SynchronousReplicas::SynchronousReplicas(const StrategySetup& setup, const ReducerOptions& options)
    : parts_(setup.ranks.parts), model_(setup.model), parallel_(setup.ranks.data, setup.model.all_tensors(), in_parts(setup, options)) {}

// The sum over ranks and passes is the mean over the update's samples. If a pass is not one backward pass of autograd, its gradients accumulate in
// the buckets and are reduced when complete.
void SynchronousReplicas::accumulate(const MicroBatchShare& share, const std::function<void(double weight)>& pass) {
  {
    std::optional<DataParallel::NoSync> local;
    if (!share.last || !share.one_backward) local.emplace(parallel_.no_sync());
    pass(static_cast<double>(share.here) / static_cast<double>(share.samples));
  }
  if (share.last && !share.one_backward) parallel_.join_backward();
}

// All parts skip the update if one must.
Outcome SynchronousReplicas::outcome(double loss_scale) const {
  const at::Tensor flags = at::zeros({3}, at::TensorOptions().dtype(at::kInt));
  auto* const values = flags.mutable_data_ptr<int32_t>();
  values[0] = parallel_.notices(static_cast<int>(Signal::non_finite)) > 0 ? 1 : 0;
  values[1] = parallel_.gradients_finite() ? 0 : 1;
  values[2] = parallel_.notices(static_cast<int>(Signal::stop)) > 0 ? 1 : 0;
  if (parts_ != nullptr) allreduce(*parts_, flags, ReduceOp::max);
  return outcome_of(values[0] != 0, values[1] == 0, values[2] != 0, loss_scale);
}

void SynchronousReplicas::account_reduced(KnownMemory& known, int sharers) const {
  account_parameters(known, model_.parameters, sharers);
  account_buckets(known, parallel_.reducer());
}

ReducerOptions reducer_options(const StrategySetup& setup) {
  return {.reduction = Reduction::sum,
          .check_finite = true,
          .arrival_order = usable(setup.ranks.data, setup.arrival_order, setup.model),
          .sparse = setup.model.sparse,
          .on_bucket = [on_communication = setup.on_communication](int64_t bucket, auto begin, auto end) {
            if (on_communication) on_communication("all-reduce", bucket, begin, end);
          }};
}

}  // namespace tw::train
