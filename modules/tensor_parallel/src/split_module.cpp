// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/split_module.hpp>

#include <tw/base/contract.hpp>
#include <tw/gradients/part_gradients.hpp>
#include <tw/mpi/library.hpp>
#include <tw/tensor/tensor_spec.hpp>

#include "part.hpp"

namespace tw::tensor_parallel {
namespace {

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
  slices_.push_back({name, whole.sizes().vec(), std::vector<int64_t>(static_cast<size_t>(whole.dim()), 0)});
  slices_.back().offsets[static_cast<size_t>(dimension)] = part.begin;
  const at::Tensor slice = register_parameter(name, whole.detach().narrow(dimension, part.begin, part.count()).clone(at::MemoryFormat::Contiguous));
  if (comm_.size() > 1) guard_gradient(slice, "tw::clip_gradient_norm(module, max_norm)");
  return slice;
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
  const std::map<std::string, SlicedParameter> slices = slices_by_name(model);
  for (NamedShard& shard : shards) {
    const auto found = slices.find(parameter_of(shard.name));
    if (found == slices.end() || shard.kind == ShardKind::counter) continue;
    const SlicedParameter& slice = found->second;
    TW_EXPECTS(shard.tensor.dim() == static_cast<int64_t>(slice.global_shape.size()), shard.name, " of shape ",
               shape_text(shard.tensor.sizes().vec()), " cannot be a slice of ", shape_text(slice.global_shape));
    shard.global_shape = slice.global_shape;
    shard.offsets = slice.offsets;
    shard.on_reshard = OnReshard::shard;
  }
  return shards;
}

}  // namespace tw::tensor_parallel
