// SPDX-License-Identifier: Apache-2.0
#include "module_tensors.hpp"

#include <ATen/MemoryOverlap.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/gradients/trainable_model.hpp>
#include <tw/tensor/on_cpu.hpp>

namespace tw {

std::vector<NamedTensor> tensors_of(const NamedParameters& parameters) {
  std::vector<NamedTensor> tensors;
  for (const auto& entry : parameters) tensors.push_back({entry.key(), entry.value()});
  return tensors;
}

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors = tensors_of(module.named_parameters());
  for (NamedTensor& buffer : tensors_of(module.named_buffers())) tensors.push_back(std::move(buffer));
  return without_aliases(std::move(tensors));
}

namespace {

void expect_same_part(const Communicator& comm, const torch::nn::Module& module) {
  const auto* model = dynamic_cast<const TrainableModel*>(&module);
  if (model == nullptr || model->axes().empty()) return;
  std::string part;
  for (const OptimizedTensor& each : model->optimized_tensors()) {
    for (const NamedShard& slice : each.slices) part += concat(slice.name, " from ", shape_text(slice.offsets), '\n');
  }
  const std::vector<std::string> parts = allgather_strings(comm, part);
  for (size_t rank = 1; rank < parts.size(); ++rank) {
    TW_EXPECTS(parts[rank] == parts[0], "rank ", rank, " of '", comm.name(), "' has a different part of the model than rank 0, along the axis ",
               model->axes().front(), ": replicate it over the ranks that have the same part, such as those of mesh[\"data\"]");
  }
}

}  // namespace

std::vector<NamedTensor> tensors_of_replica(const Communicator& comm, const torch::nn::Module& module) {
  expect_same_part(comm, module);
  return tensors_of(module);
}

std::vector<NamedTensor> trained(std::vector<NamedTensor> tensors) {
  std::erase_if(tensors, [](const NamedTensor& tensor) { return !tensor.tensor.requires_grad(); });
  return without_aliases(std::move(tensors));
}

void expect_memory_of_their_own(const std::vector<NamedTensor>& tensors) {
  std::map<const c10::StorageImpl*, std::vector<const NamedTensor*>> by_storage;
  for (const NamedTensor& each : tensors) {
    if (each.tensor.is_meta() || !each.tensor.has_storage()) continue;
    std::vector<const NamedTensor*>& others = by_storage[each.tensor.storage().unsafeGetStorageImpl()];
    for (const NamedTensor* other : others) {
      if (!each.tensor.requires_grad() && !other->tensor.requires_grad()) continue;  // neither ever changes
      const at::MemOverlapStatus overlap = at::get_overlap_status(each.tensor, other->tensor);
      TW_EXPECTS(overlap != at::MemOverlapStatus::Full && overlap != at::MemOverlapStatus::Partial, other->name, " and ", each.name,
                 " are two tensors in the same memory, but each would get its own slices: make them one tensor");
    }
    others.push_back(&each);
  }
}

c10::Device device_of(const Communicator& comm, const std::string& user, const std::vector<NamedTensor>& tensors) {
  const c10::Device first = tensors.empty() ? c10::Device(c10::kCPU) : tensors[0].tensor.device();
  on_all_ranks(comm, "checking the parameters of " + user, [&] {
    for (const auto& [name, tensor] : tensors) {
      if (!is_on_accelerator(tensor)) expect_dense_on_cpu(tensor, concat(user, " of ", name));
      TW_EXPECTS(tensor.device() == first, "the parameters of ", user, " must be on one device: ", tensors[0].name, " is on ", first.str(), ", ",
                 name, " on ", tensor.device().str());
    }
  });
  return first;
}

c10::Device common_device_of(const std::vector<NamedTensor>& tensors) {
  const auto elsewhere = [&](const NamedTensor& tensor) { return tensor.tensor.device() != tensors[0].tensor.device(); };
  return tensors.empty() || std::any_of(tensors.begin(), tensors.end(), elsewhere) ? c10::Device(c10::kCPU) : tensors[0].tensor.device();
}

std::vector<NamedTensor> numbered(const std::vector<at::Tensor>& tensors) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < tensors.size(); ++i) named.push_back({concat("tensor ", i), tensors[i]});
  return named;
}

}  // namespace tw
