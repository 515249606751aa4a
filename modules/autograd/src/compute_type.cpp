// SPDX-License-Identifier: Apache-2.0
#include <tw/autograd/compute_type.hpp>

#include <tw/base/contract.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw {
namespace {

AutocastState state_of(ComputeType type, c10::DeviceType kind) {
  return AutocastState::here().on(kind, type == ComputeType::float16 ? at::kHalf : at::kBFloat16);
}

}  // namespace

const std::vector<std::pair<std::string, ComputeType>>& compute_type_names() {
  static const std::vector<std::pair<std::string, ComputeType>> names{
      {"float32", ComputeType::float32}, {"bfloat16", ComputeType::bfloat16}, {"float16", ComputeType::float16}};
  return names;
}

void expect_autocast(ComputeType type, const std::vector<NamedTensor>& parameters, c10::DeviceType kind) {
  if (type == ComputeType::float32) return;
  for (const auto& [name, tensor] : parameters) {
    TW_EXPECTS(!tensor.requires_grad() || tensor.scalar_type() == at::kFloat, "mixed precision is for models with float32 parameters, but parameter ",
               name, " is ", dtype_name(tensor.scalar_type()));
  }
  (void)state_of(type, kind);
}

at::Tensor in_float32(const at::Tensor& tensor) {
  const bool is_half = tensor.defined() && (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16);
  return is_half ? tensor.to(at::kFloat) : tensor;
}

ComputeScope::ComputeScope(ComputeType type, c10::DeviceType kind) {
  if (type != ComputeType::float32) scope_.emplace(state_of(type, kind));
}

}  // namespace tw
