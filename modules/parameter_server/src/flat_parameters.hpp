// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::parameter_server {

/// The parameters that a worker trains, as one flat host tensor. Parameters on a device are transferred in one copy, for which the host waits.
class FlatParameters {
 public:
  /// @throws ContractError unless there is at least one, and all have the same floating-point dtype and device
  explicit FlatParameters(std::vector<at::Tensor> parameters);

  /// Named "parameter 0", "parameter 1", ...
  std::vector<TensorSpec> specs() const;

  // `flat` has shape [numel] and is on the CPU.

  at::Tensor zeros() const;
  /// A copy of the values.
  at::Tensor values() const;
  /// Sets the values to those of `flat`.
  void set(const at::Tensor& flat) const;
  /// Adds the gradients that are defined.
  void add_gradients_to(const at::Tensor& flat) const;

 private:
  at::Tensor zeros_beside() const;
  /// Calls f(parameter, its slice of `flat`), with `flat` on the parameters' device.
  template <class Function>
  void for_each(const at::Tensor& flat, Function f) const;

  std::vector<at::Tensor> parameters_;
  std::vector<int64_t> numels_;
  FlatLayout layout_;
  c10::Device device_ = c10::Device(c10::kCPU);
  c10::ScalarType dtype_ = c10::ScalarType::Undefined;
};

}  // namespace tw::parameter_server
