// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/split_model.hpp>

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
