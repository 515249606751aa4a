// SPDX-License-Identifier: Apache-2.0
#include "states.hpp"

#include <tw/tensor/tensor_spec.hpp>

namespace tw::layer_parallel {

bool alike(const State& a, const State& b, size_t skipped) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || a[i].scalar_type() != b[i].scalar_type() || a[i].dim() != b[i].dim()) return false;
    if (!a[i].sizes().slice(skipped).equals(b[i].sizes().slice(skipped))) return false;
  }
  return true;
}

std::string describe(const State& state) {
  if (state.empty()) return "nothing";
  std::string text;
  for (const at::Tensor& tensor : state) {
    if (!text.empty()) text += ", ";
    text += tensor.defined() ? dtype_name(tensor.scalar_type()) + ' ' + shape_text(tensor.sizes().vec()) : "an undefined tensor";
  }
  return text;
}

}  // namespace tw::layer_parallel
