// SPDX-License-Identifier: Apache-2.0
#include <tw/gradients/trainable_model.hpp>

#include <ATen/ops/full_like.h>
#include <torch/nn/module.h>

#include <tw/autograd/autocast.hpp>
#include <tw/base/contract.hpp>
#include <tw/gradients/model_parts.hpp>

namespace tw {

std::vector<NamedTensor> ModelTensors::all_tensors() const {
  std::vector<NamedTensor> all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

c10::Device ModelTensors::device() const { return parameters.empty() ? c10::Device(c10::kCPU) : parameters[0].tensor.device(); }

int64_t ModelTensors::trained_elements() const {
  int64_t elements = 0;
  for (const NamedTensor& parameter : parameters) elements += parameter.tensor.requires_grad() ? parameter.tensor.numel() : 0;
  return elements;
}

std::vector<at::Tensor> ModelTensors::tensors() const {
  std::vector<at::Tensor> all;
  for (const NamedTensor& parameter : parameters) all.push_back(parameter.tensor);
  return all;
}

void ModelTensors::expect_replicable() const {
  TW_EXPECTS(renormalised.empty(), renormalised.front(),
             " is the weight of an embedding with max_norm, whose forward pass changes the rows that it uses. ",
             "These differ between ranks, so the replicas would drift apart. Leave max_norm out, and look up rows of ",
             "torch::renorm(weight, norm_type, 0, max_norm), such as by torch::embedding()");
}

void for_each_layer(const torch::nn::Module& module, const OnLayer& on_layer) {
  on_layer("", module);
  for (const auto& each : module.named_modules("", /*include_self=*/false)) on_layer(each.key(), *each.value());
}

void TrainableModel::for_each_layer(const OnLayer& on_layer) const {
  if (module() != nullptr) tw::for_each_layer(*module(), on_layer);
}

std::vector<const Communicator*> TrainableModel::communicators() const {
  std::vector<const Communicator*> all;
  if (holders() != nullptr) all.push_back(holders());
  for_each_layer([&](const std::string& /*name*/, const torch::nn::Module& layer) {
    if (const auto* sliced = dynamic_cast<const SlicedModule*>(&layer)) all.push_back(&sliced->holders());
  });
  return all;
}

std::vector<NamedShard> TrainableModel::shards() const {
  std::vector<NamedShard> shards;
  const ModelTensors mine = tensors();
  for (const auto& [name, tensor] : mine.parameters) shards.push_back(whole(name, tensor, ShardKind::parameter));
  for (const auto& [name, tensor] : mine.buffers) shards.push_back(whole(name, tensor, ShardKind::buffer));
  return shards;
}

std::vector<OptimizedTensor> TrainableModel::optimized_tensors() const {
  std::vector<OptimizedTensor> optimized;
  for (const auto& [name, tensor] : tensors().parameters) optimized.push_back({tensor, {whole(name, tensor, ShardKind::parameter)}});
  return optimized;
}

std::vector<OptimizedTensor> TrainableModel::trained_tensors() const {
  std::vector<OptimizedTensor> tensors = optimized_tensors();
  std::erase_if(tensors, [](const OptimizedTensor& each) { return !each.tensor.requires_grad(); });
  return tensors;
}

std::vector<NamedShard> TrainableModel::exported_shards() const {
  std::vector<NamedShard> exported = shards();
  std::erase_if(exported, [](const NamedShard& shard) { return shard.kind != ShardKind::parameter && shard.kind != ShardKind::buffer; });
  return exported;
}

void TrainableModel::pass(const TrainingPass& pass) {
  const at::Tensor outputs = forward(pass.inputs);
  at::Tensor loss = pass.loss(outputs, pass.targets);
  if (pass.on_loss) pass.on_loss(outputs, loss);
  const AutocastScope plain(AutocastState::here().off());
  loss.backward(at::full_like(loss, pass.weight));
}

}  // namespace tw
