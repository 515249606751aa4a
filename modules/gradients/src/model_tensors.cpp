// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <tw/gradients/module_modes.hpp>
#include <tw/gradients/sparse_gradients.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <unordered_map>
#include <unordered_set>

namespace tw {
namespace {

// Each tensor once; its other names go to `aliases`.
template <class Entries>
std::vector<NamedTensor> named_once(const Entries& entries, std::map<std::string, std::string>& aliases) {
  std::vector<NamedTensor> tensors;
  std::unordered_map<const c10::TensorImpl*, std::string> first;
  for (const auto& entry : entries) {
    const auto [found, is_new] = first.emplace(entry.value().unsafeGetTensorImpl(), entry.key());
    if (is_new) {
      tensors.push_back({entry.key(), entry.value()});
    } else {
      aliases.emplace(entry.key(), found->second);
    }
  }
  return tensors;
}

// The weights of the embeddings in `module` whose options satisfy `wanted`.
template <class Wanted>
std::unordered_set<const c10::TensorImpl*> weights_of_embeddings(const torch::nn::Module& module, const Wanted& wanted) {
  std::unordered_set<const c10::TensorImpl*> weights;
  const auto look = [&](const torch::nn::Module& each) {
    const auto* embedding = dynamic_cast<const torch::nn::EmbeddingImpl*>(&each);
    const auto* bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&each);
    if (embedding != nullptr && wanted(embedding->options)) weights.insert(embedding->weight.unsafeGetTensorImpl());
    if (bag != nullptr && wanted(bag->options)) weights.insert(bag->weight.unsafeGetTensorImpl());
  };
  look(module);  // apart from modules(), which would need a shared_ptr to `module`
  for (const auto& each : module.modules(/*include_self=*/false)) look(*each);
  return weights;
}

std::vector<std::string> trained_among(const std::vector<NamedTensor>& parameters, const std::unordered_set<const c10::TensorImpl*>& wanted) {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : parameters) {
    const bool is_wanted = parameter.tensor.requires_grad() && wanted.contains(parameter.tensor.unsafeGetTensorImpl());
    if (is_wanted) names.push_back(parameter.name);
  }
  return names;
}

class WholeModel : public TrainableModel {
 public:
  WholeModel(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const at::Tensor&)> forward)
      : module_(std::move(module)), forward_(std::move(forward)) {}

  ModelTensors tensors() const override { return model_tensors(*module_); }
  const torch::nn::Module* module() const override { return module_.get(); }
  at::Tensor forward(const at::Tensor& inputs) override { return forward_(inputs); }
  void set_training(bool training) override { switch_.set(*module_, training); }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  TrainingSwitch switch_;
};

}  // namespace

ModelTensors model_tensors(const torch::nn::Module& module) {
  ModelTensors tensors;
  tensors.parameters = named_once(module.named_parameters(), tensors.aliases);
  tensors.buffers = named_once(module.named_buffers(), tensors.aliases);
  tensors.sparse = sparse_gradients_of(module);
  const auto has_max_norm = [](const auto& options) { return options.max_norm().has_value(); };
  tensors.renormalised = trained_among(tensors.parameters, weights_of_embeddings(module, has_max_norm));
  return tensors;
}

std::shared_ptr<TrainableModel> whole_model(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const at::Tensor&)> forward) {
  return std::make_shared<WholeModel>(std::move(module), std::move(forward));
}

std::vector<std::string> sparse_gradients_of(const torch::nn::Module& module) {
  std::map<std::string, std::string> aliases;
  return trained_among(named_once(module.named_parameters(), aliases),
                       weights_of_embeddings(module, [](const auto& options) { return options.sparse(); }));
}

}  // namespace tw
