// SPDX-License-Identifier: Apache-2.0
#include "module_check.hpp"

#include <torch/nn/module.h>

#include <string>
#include <tw/base/contract.hpp>
#include <tw/data_parallel/sync_batch_norm.hpp>
#include <utility>

namespace tw {

ModuleCheck::ModuleCheck(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {
  for (const at::Tensor& each : module_->parameters()) parameters_.push_back({each, each.requires_grad()});
}

std::string ModuleCheck::problem() const {
  constexpr const char* after = ", unlike when parallelize() was called: make all changes of the module before parallelize(), on all ranks";
  const std::vector<at::Tensor> now = module_->parameters();
  const auto name_of = [&](size_t index) { return module_->named_parameters()[index].key(); };
  for (size_t i = 0; i < now.size(); ++i) {
    if (i >= parameters_.size() || !now[i].is_same(parameters_[i].tensor)) return concat(name_of(i), " is a parameter of the module", after);
    if (!parameters_[i].is_trained && now[i].requires_grad()) return concat(name_of(i), " requires a gradient", after);
  }
  if (now.size() < parameters_.size()) return concat("the module has ", now.size(), " parameters, not ", parameters_.size(), after);
  return "";
}

void expect_no_exchange(const std::string& name, const torch::nn::Module& layer) {
  TW_EXPECTS(dynamic_cast<const SyncBatchNormImpl*>(&layer) == nullptr, "layer '", name,
             "' is a SyncBatchNorm, which waits for ranks that may have no samples in a pass: use a plain batch norm, whose running statistics ",
             "a ParallelModel averages, or train with the Trainer");
}

}  // namespace tw
