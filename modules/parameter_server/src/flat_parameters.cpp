// SPDX-License-Identifier: Apache-2.0
#include "flat_parameters.hpp"

#include <ATen/core/grad_mode.h>

#include <tw/base/contract.hpp>
#include <tw/tensor/tensor_spec.hpp>

namespace tw::parameter_server {

FlatParameters::FlatParameters(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
  TW_EXPECTS(!parameters_.empty(), "there is nothing to train");
  std::vector<int64_t> numels;
  for (const at::Tensor& each : parameters_) {
    TW_EXPECTS(each.is_floating_point() && each.scalar_type() == parameters_.front().scalar_type(),
               "parameters must be floating point numbers of one type, got ", dtype_name(parameters_.front().scalar_type()), " and ",
               dtype_name(each.scalar_type()));
    numels.push_back(each.numel());
  }
  layout_ = flat_layout(numels);
}

template <class Of>
at::Tensor FlatParameters::gathered(Of of) const {
  const at::NoGradGuard no_grad;
  const FlatBuffer flat(layout_.numel, parameters_.front().scalar_type());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (const at::Tensor from = of(parameters_[i]); from.defined()) flat.view(layout_.offsets[i], from.sizes()).copy_(from);
  }
  return flat.storage();
}

at::Tensor FlatParameters::values() const {
  return gathered([](const at::Tensor& parameter) { return parameter.detach(); });
}

at::Tensor FlatParameters::gradients() const {
  return gathered([](const at::Tensor& parameter) { return parameter.grad(); });
}

void FlatParameters::set(const at::Tensor& flat) const {
  const at::NoGradGuard no_grad;
  const FlatBuffer from(flat);
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].detach().copy_(from.view(layout_.offsets[i], parameters_[i].sizes()));
}

}  // namespace tw::parameter_server
