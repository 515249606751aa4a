// SPDX-License-Identifier: Apache-2.0
#include <tw/train/model.hpp>

#include <tw/graph/torchscript.hpp>
#include <tw/state/module_state.hpp>
#include <utility>

#include "batch_norms.hpp"

namespace tw::train {

Model model_of(const std::shared_ptr<TrainableModel>& trained) {
  Model model{trained->tensors(), trained};
  model.exchanges_in_passes = !batch_norms_of(*trained).empty();
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
