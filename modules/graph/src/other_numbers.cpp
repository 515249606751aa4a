// SPDX-License-Identifier: Apache-2.0
#include "other_numbers.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

namespace tw::graph {
namespace {

bool can_change(const at::Tensor& tensor) {
  return tensor.is_floating_point() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense() && !tensor.is_inference();
}

}  // namespace

OtherNumbers::OtherNumbers(const std::vector<NamedTensor>& tensors) {
  const c10::AutoGradMode no_gradients(false);
  at::Generator numbers = at::make_generator<at::CPUGeneratorImpl>(0);
  for (const NamedTensor& each : tensors) {
    if (!can_change(each.tensor)) continue;
    tensors_.push_back(each.tensor);
    before_.push_back(each.tensor.detach().clone());
  }
  for (const at::Tensor& tensor : tensors_) {
    const at::Tensor random = at::rand(tensor.sizes(), numbers, at::kDouble).to(tensor.options().requires_grad(false));
    tensor.copy_(at::where(tensor.eq(0), 0.01 * random, tensor * (0.75 + 0.5 * random)));
  }
}

OtherNumbers::~OtherNumbers() {
  const c10::AutoGradMode no_gradients(false);
  for (size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(before_[i]);
}

}  // namespace tw::graph
