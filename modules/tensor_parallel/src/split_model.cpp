// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/split_model.hpp>

#include <algorithm>
#include <tw/tensor_parallel/split_module.hpp>

namespace tw::tensor_parallel {
namespace {

class SplitModel : public ModelDecorator {
 public:
  SplitModel(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<TrainableModel> model)
      : ModelDecorator(std::move(model)), module_(std::move(module)) {}

  std::vector<std::string> axes() const override {
    std::vector<std::string> axes = inner()->axes();
    axes.emplace_back("tensor");
    return axes;
  }
  /// If the inner model knows no layers, those of the module.
  void for_each_layer(const OnLayer& on_layer) const override {
    bool knows_layers = false;
    inner()->for_each_layer([&](const std::string& name, const torch::nn::Module& layer) {
      knows_layers = true;
      on_layer(name, layer);
    });
    if (!knows_layers) tw::for_each_layer(*module_, on_layer);
  }
  /// Those of the inner model, and those of split layers that it does not know.
  std::vector<const Communicator*> communicators() const override {
    std::vector<const Communicator*> all = inner()->communicators();
    for_each_layer([&](const std::string& /*name*/, const torch::nn::Module& layer) {
      const auto* sliced = dynamic_cast<const SlicedModule*>(&layer);
      if (sliced != nullptr && std::ranges::find(all, &sliced->holders()) == all.end()) all.push_back(&sliced->holders());
    });
    return all;
  }
  std::vector<NamedShard> shards() const override { return sliced(*module_, inner()->shards()); }
  std::vector<OptimizedTensor> optimized_tensors() const override {
    std::vector<OptimizedTensor> tensors = inner()->optimized_tensors();
    for (OptimizedTensor& each : tensors) each.slices = sliced(*module_, std::move(each.slices));
    return tensors;
  }
  std::vector<NamedShard> exported_shards() const override { return sliced(*module_, inner()->exported_shards()); }

 private:
  std::shared_ptr<torch::nn::Module> module_;
};

}  // namespace

std::shared_ptr<TrainableModel> split_model(std::shared_ptr<torch::nn::Module> module, std::shared_ptr<TrainableModel> model) {
  return std::make_shared<SplitModel>(std::move(module), std::move(model));
}

}  // namespace tw::tensor_parallel
