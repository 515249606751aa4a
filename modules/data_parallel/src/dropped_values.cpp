// SPDX-License-Identifier: Apache-2.0
#include <tw/data_parallel/dropped_values.hpp>

#include <tw/autograd/operator_watch.hpp>
#include <tw/base/contract.hpp>

namespace tw {

void drop_values(const at::Tensor& tensor, const std::string& why) {
  if (tensor.numel() == 0) return;
  const c10::Storage nothing(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, tensor.device()), nullptr, false);
  place_in_storage(tensor, nothing, 0, tensor.scalar_type());
  refuse_pointers(nothing, why);
}

bool has_values(const at::Tensor& tensor) {
  return !tensor.is_meta() && (tensor.numel() == 0 || !tensor.has_storage() || tensor.storage().nbytes() > 0 || has_temporary_memory(tensor));
}

void expect_values(const std::vector<NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    TW_EXPECTS(has_values(tensor), name, " has no values on this rank: it was made without memory, or its module was divided into stages before");
  }
}

}  // namespace tw
