// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/split_module.hpp>

#include <tw/base/contract.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <unordered_map>

#include "part.hpp"

namespace tw::tensor_parallel {
namespace {

using SplitsByName = std::unordered_map<std::string, Split>;

// Splits under every name in `model`: a tied parameter has several names, and a shard may use any of them.
SplitsByName splits_by_name(const torch::nn::Module& model) {
  std::unordered_map<const c10::TensorImpl*, Split> by_tensor;
  const auto add = [&](const torch::nn::Module& module) {
    const auto* split_module = dynamic_cast<const SplitModule*>(&module);
    if (split_module == nullptr) return;
    const auto parameters = module.named_parameters(false);
    for (const Split& split : split_module->splits()) by_tensor.emplace(parameters[split.name].unsafeGetTensorImpl(), split);
  };
  add(model);
  for (const auto& module : model.modules(false)) add(*module);

  SplitsByName by_name;
  for (const auto& parameter : model.named_parameters()) {
    const auto found = by_tensor.find(parameter.value().unsafeGetTensorImpl());
    if (found != by_tensor.end()) by_name.emplace(parameter.key(), found->second);
  }
  return by_name;
}

// The parameter name in "optimizer/<parameter>/<what>"; any other name is a parameter's name itself.
std::string parameter_of(const std::string& shard) {
  const std::string prefix = "optimizer/";
  if (!shard.starts_with(prefix)) return shard;
  return shard.substr(prefix.size(), shard.rfind('/') - prefix.size());
}

}  // namespace

SplitModule::SplitModule(const Communicator& comm) : comm_(mpi::share(comm)) {}

at::Tensor SplitModule::register_slice(const std::string& name, const at::Tensor& whole, int64_t dimension) {
  const auto part = own_part(comm_, whole.size(dimension));
  splits_.push_back({name, whole.sizes().vec(), std::vector<int64_t>(static_cast<size_t>(whole.dim()), 0)});
  splits_.back().offsets[static_cast<size_t>(dimension)] = part.begin;
  return register_parameter(name, whole.detach().narrow(dimension, part.begin, part.count()).clone(at::MemoryFormat::Contiguous));
}

std::vector<std::string> SplitModule::sliced_parameters() const {
  std::vector<std::string> names;
  for (const Split& split : splits_) names.push_back(split.name);
  return names;
}

std::vector<NamedShard> SplitModule::shards(const std::string& prefix) const {
  std::vector<NamedShard> shards;
  for (const auto& parameter : named_parameters()) shards.push_back(whole(parameter.key(), parameter.value(), ShardKind::parameter));
  shards = sliced(*this, std::move(shards));
  for (NamedShard& shard : shards) {
    if (!prefix.empty()) shard.name = prefix + "." + shard.name;
  }
  return shards;
}

std::vector<NamedShard> sliced(const torch::nn::Module& model, std::vector<NamedShard> shards) {
  const SplitsByName splits = splits_by_name(model);
  for (NamedShard& shard : shards) {
    const auto found = splits.find(parameter_of(shard.name));
    if (found == splits.end() || shard.kind == ShardKind::counter) continue;
    const Split& split = found->second;
    TW_EXPECTS(shard.tensor.dim() == static_cast<int64_t>(split.global_shape.size()), shard.name, " of shape ",
               shape_text(shard.tensor.sizes().vec()), " cannot be a slice of ", shape_text(split.global_shape));
    shard.global_shape = split.global_shape;
    shard.offsets = split.offsets;
    shard.on_reshard = OnReshard::shard;
  }
  return shards;
}

}  // namespace tw::tensor_parallel
