// SPDX-License-Identifier: Apache-2.0
#include <tw/train/model.hpp>

#include <torch/nn/module.h>

#include <tw/base/contract.hpp>
#include <tw/data_parallel/sync_batch_norm.hpp>
#include <tw/graph/torchscript.hpp>
#include <tw/state/module_state.hpp>
#include <utility>

namespace tw::train {

Model model_of(const std::shared_ptr<TrainableModel>& trained) {
  Model model{trained->tensors(), trained};
  if (trained->module() == nullptr) return model;
  const auto look_at = [&](const torch::nn::Module& layer, const std::string& name) {
    const auto* norm = dynamic_cast<const SyncBatchNormImpl*>(&layer);
    if (norm == nullptr) return;
    model.exchanges_in_passes = true;
    TW_EXPECTS(
        trained->makes_one_backward_pass(), "SyncBatchNorm ", name,
        " is in stages or in layers in parallel, where ranks may make different numbers of passes, so that it could wait for ever: take a plain ",
        "batch norm");
    TW_EXPECTS(norm->reduction() != Reduction::sample_weighted, "SyncBatchNorm ", name,
               " is made for Reduction::sample_weighted; the trainer weights losses itself and sums gradients: make it for Reduction::sum");
  };
  look_at(*trained->module(), "");
  for (const auto& each : trained->module()->named_modules("", /*include_self=*/false)) look_at(*each.value(), each.key());
  return model;
}

Model model_of(const std::shared_ptr<torch::nn::Module>& module, std::function<at::Tensor(const at::Tensor&)> forward) {
  Model model = model_of(whole_model(module, std::move(forward)));
  model.empty_submodules = empty_submodules(*module);
  return model;
}

Model load_torchscript(const std::filesystem::path& path) {
  const auto script = graph::load_torchscript(path);
  return model_of(script, [script](const at::Tensor& inputs) { return script->forward_one(inputs); });
}

}  // namespace tw::train
