// SPDX-License-Identifier: Apache-2.0
#include <tw/train/model.hpp>

#include <torch/nn/module.h>

#include <tw/base/contract.hpp>
#include <tw/data_parallel/sync_batch_norm.hpp>
#include <tw/graph/torchscript.hpp>
#include <tw/state/module_state.hpp>
#include <utility>

namespace tw::train {

Model model_of(const std::shared_ptr<TrainableModel>& model) { return {model->tensors(), model}; }

Model model_of(const std::shared_ptr<torch::nn::Module>& module, std::function<at::Tensor(const at::Tensor&)> forward) {
  Model model = model_of(whole_model(module, std::move(forward)));
  model.empty_submodules = empty_submodules(*module);
  for (const auto& each : module->named_modules()) {
    const auto* norm = dynamic_cast<const SyncBatchNormImpl*>(each.value().get());
    if (norm == nullptr) continue;
    model.exchanges_in_passes = true;
    TW_EXPECTS(norm->reduction() != Reduction::sample_weighted, "SyncBatchNorm ", each.key(),
               " is made for Reduction::sample_weighted; the trainer weights losses itself and sums gradients: make it for Reduction::sum");
  }
  return model;
}

Model load_torchscript(const std::filesystem::path& path) {
  const auto script = graph::load_torchscript(path);
  return model_of(script, [script](const at::Tensor& inputs) { return script->forward_one(inputs); });
}

}  // namespace tw::train
