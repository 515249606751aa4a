// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/pipeline.hpp>
#include <tw/train/model.hpp>

namespace tw::train {

Model model_of(const std::shared_ptr<pipeline::Pipeline>& pipeline) {
  Model model = model_of(std::shared_ptr<torch::nn::Module>(pipeline), [pipeline](const at::Tensor& inputs) { return pipeline->forward(inputs); });
  model.empty_submodules.clear();
  model.parts = {.axis = "stage",
                 .shards = [pipeline] { return pipeline->shards(); },
                 .optimized_tensors = [pipeline] { return pipeline->optimized_tensors(); },
                 .whole = [pipeline] { return pipeline->whole_on_root(); },
                 .loss = [pipeline](const at::Tensor& inputs, const at::Tensor& targets,
                                    const LossFunction& loss) { return pipeline->loss(inputs, targets, loss); },
                 .begin_pass = [pipeline](int64_t number) { pipeline->set_calls(number); }};
  return model;
}

}  // namespace tw::train
