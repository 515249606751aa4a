// SPDX-License-Identifier: Apache-2.0
#include "other_numbers.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include <exception>

namespace tw::graph {
namespace {

bool can_change(const at::Tensor& tensor) {
  return tensor.is_floating_point() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() && !tensor.is_inference();
}

}  // namespace

OtherNumbers::OtherNumbers(const std::vector<NamedTensor>& tensors) {
  const c10::AutoGradMode no_gradients(false);
  at::Generator numbers = at::make_generator<at::CPUGeneratorImpl>(0);
  for (const auto& [name, tensor] : tensors) {
    if (!can_change(tensor)) continue;
    try {
      const at::Tensor before = tensor.detach().clone();
      const at::Tensor random = at::rand(tensor.sizes(), numbers, at::kDouble).to(tensor.options().requires_grad(false));
      at::Tensor(tensor).copy_(at::where(before.eq(0), 0.01 * random, before * (0.75 + 0.5 * random)));
      tensors_.push_back(tensor);
      before_.push_back(before);
    } catch (const std::exception&) {  // a dtype without arithmetic, or an owner that refuses in-place changes
      continue;
    }
  }
}

OtherNumbers::~OtherNumbers() {
  const c10::AutoGradMode no_gradients(false);
  for (size_t i = tensors_.size(); i-- > 0;) tensors_[i].copy_(before_[i]);  // in reverse: of two that share memory, the first was saved unchanged
}

}  // namespace tw::graph
