// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor/named_tensor.hpp>

#include <unordered_set>

namespace tw {

std::vector<TensorSpec> specs_of(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) specs.push_back(tensor.spec());
  return specs;
}

std::vector<NamedTensor> with_memory(std::vector<NamedTensor> tensors) {
  std::erase_if(tensors, [](const NamedTensor& each) { return each.tensor.is_meta(); });
  return tensors;
}

std::vector<NamedTensor> without_aliases(std::vector<NamedTensor> tensors) {
  std::unordered_set<const c10::TensorImpl*> seen;
  std::erase_if(tensors, [&](const NamedTensor& entry) { return !seen.insert(entry.tensor.unsafeGetTensorImpl()).second; });
  return tensors;
}

}  // namespace tw
