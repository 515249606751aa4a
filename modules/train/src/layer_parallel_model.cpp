// SPDX-License-Identifier: Apache-2.0
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/train/model.hpp>

namespace tw::train {

Model model_of(const std::shared_ptr<layer_parallel::LayerParallel>& net) {
  Model model = model_of(std::shared_ptr<torch::nn::Module>(net), [net](const at::Tensor& inputs) { return net->forward(inputs); });
  model.empty_submodules.clear();
  model.parts = {
      .axis = "layer",
      .shards = [net] { return net->shards(); },
      .optimized_tensors = [net] { return net->optimized_tensors(); },
      .whole =
          [net] {
            const auto serial = net->serial_on_root();
            return serial ? model_of(std::shared_ptr<torch::nn::Module>(serial), {}).all_tensors() : std::vector<NamedTensor>();
          },
      .begin_pass = [net](int64_t number) { net->set_calls(number); },
      .observe =
          [net](ModelParts::Observer observer) {
            if (!observer) return net->observe({});
            net->observe([observer = std::move(observer)](const char* name, int /*level*/, auto begin, auto end) { observer(name, begin, end); });
          }};
  return model;
}

}  // namespace tw::train
