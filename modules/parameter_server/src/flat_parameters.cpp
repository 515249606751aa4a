// SPDX-License-Identifier: Apache-2.0
#include "flat_parameters.hpp"

#include <ATen/core/grad_mode.h>

#include <tw/base/concat.hpp>
#include <tw/base/contract.hpp>

namespace tw::parameter_server {

FlatParameters::FlatParameters(std::vector<at::Tensor> parameters) : parameters_(std::move(parameters)) {
  TW_EXPECTS(!parameters_.empty(), "a worker needs at least one parameter to train");
  for (const at::Tensor& each : parameters_) {
    TW_EXPECTS(each.is_floating_point() && each.scalar_type() == parameters_.front().scalar_type(),
               "parameters must all have the same floating-point dtype, got ", dtype_name(parameters_.front().scalar_type()), " and ",
               dtype_name(each.scalar_type()));
    TW_EXPECTS(each.device() == parameters_.front().device(), "parameters must all be on one device, got ", parameters_.front().device().str(),
               " and ", each.device().str());
    numels_.push_back(each.numel());
  }
  layout_ = flat_layout(numels_);
  dtype_ = parameters_.front().scalar_type();
  device_ = parameters_.front().device();
}

std::vector<TensorSpec> FlatParameters::specs() const {
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < parameters_.size(); ++i) specs.push_back({concat("parameter ", i), parameters_[i].sizes().vec(), dtype_});
  return specs;
}

template <class Function>
void FlatParameters::for_each(const at::Tensor& flat, Function f) const {
  const at::NoGradGuard no_grad;
  const FlatBuffer buffer(flat);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    TW_EXPECTS(parameters_[i].scalar_type() == dtype_, "parameter ", i, " is ", dtype_name(parameters_[i].scalar_type()), " and was ",
               dtype_name(dtype_), " when the worker was made: make the worker after all changes to the model");
    TW_EXPECTS(parameters_[i].numel() == numels_[i], "parameter ", i, " has ", parameters_[i].numel(), " elements and had ", numels_[i],
               " when the worker was made: make the worker after all changes to the model");
    f(parameters_[i], buffer.view(layout_.offsets[i], parameters_[i].sizes()));
  }
}

at::Tensor FlatParameters::zeros() const { return FlatBuffer(layout_.numel, dtype_).storage(); }

at::Tensor FlatParameters::zeros_beside() const { return FlatBuffer(layout_.numel, at::device(device_).dtype(dtype_)).storage(); }

at::Tensor FlatParameters::values() const {
  const at::Tensor flat = zeros_beside();
  for_each(flat, [](const at::Tensor& parameter, const at::Tensor& place) { place.copy_(parameter.detach()); });
  return flat.cpu();
}

void FlatParameters::set(const at::Tensor& flat) const {
  for_each(flat.to(device_), [](const at::Tensor& parameter, const at::Tensor& place) { parameter.detach().copy_(place); });
}

void FlatParameters::add_gradients_to(const at::Tensor& flat) const {
  const auto add = [](const at::Tensor& parameter, const at::Tensor& place) {
    if (parameter.grad().defined()) place.add_(parameter.grad());
  };
  if (device_.is_cpu()) return for_each(flat, add);
  const at::Tensor gradients = zeros_beside();
  for_each(gradients, add);
  flat.add_(gradients.cpu());
}

}  // namespace tw::parameter_server
