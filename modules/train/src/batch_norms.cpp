// SPDX-License-Identifier: Apache-2.0
#include "batch_norms.hpp"

#include <ATen/ops/full.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/collectives.hpp>

namespace tw::train {

std::vector<std::pair<std::string, const SyncBatchNormImpl*>> batch_norms_of(const TrainableModel& model) {
  std::vector<std::pair<std::string, const SyncBatchNormImpl*>> norms;
  model.for_each_layer([&](const std::string& name, const torch::nn::Module& layer) {
    if (const auto* norm = dynamic_cast<const SyncBatchNormImpl*>(&layer)) norms.emplace_back(name, norm);
  });
  return norms;
}

void agree_on_batch_norms(const Ranks& ranks, Model& model) {
  const std::vector<std::string> axes = model.trained->axes();
  const bool in_parts = !model.trained->makes_one_backward_pass() || std::ranges::find(axes, "layer") != axes.end();
  on_all_ranks(ranks.all, "checking SyncBatchNorms", [&] {
    for (const auto& [name, norm] : batch_norms_of(*model.trained)) {
      TW_EXPECTS(!in_parts, "SyncBatchNorm ", name,
                 " is in stages or in layers in parallel. Ranks may make different numbers of passes there, so it could wait forever: use a ",
                 "plain batch norm");
      TW_EXPECTS(norm->reduction() != Reduction::sample_weighted, "SyncBatchNorm ", name,
                 " is made for Reduction::sample_weighted, but the trainer weights losses itself and sums gradients: make it for Reduction::sum");
    }
  });
  const at::Tensor exchanges = at::full({}, model.exchanges_in_passes ? 1 : 0, at::kLong);
  allreduce(ranks.all, exchanges, ReduceOp::max);
  model.exchanges_in_passes = exchanges.item<int64_t>() > 0;
}

}  // namespace tw::train
