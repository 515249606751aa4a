// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::parameter_server {

/// What a worker trains, as one flat tensor of the host; parameters on a device travel by one copy, for which the host waits.
class FlatParameters {
 public:
  /// @throws ContractError unless all are floating point numbers of one type, on one device, of which there is one at least
  explicit FlatParameters(std::vector<at::Tensor> parameters);

  /// Under the names "parameter 0", "parameter 1", ...
  std::vector<TensorSpec> specs() const;

  // `flat` is of shape [numel], on the CPU.

  at::Tensor zeros() const;
  /// A copy of the values.
  at::Tensor values() const;
  /// Makes the values those of `flat`.
  void set(const at::Tensor& flat) const;
  /// Adds the gradients that there are.
  void add_gradients_to(const at::Tensor& flat) const;

 private:
  at::Tensor zeros_beside() const;
  /// Calls f(parameter, its place in `flat`), which lies where parameters do.
  template <class Function>
  void for_each(const at::Tensor& flat, Function f) const;

  std::vector<at::Tensor> parameters_;
  std::vector<int64_t> numels_;
  FlatLayout layout_;
  c10::Device device_ = c10::Device(c10::kCPU);
  c10::ScalarType dtype_ = c10::ScalarType::Undefined;
};

}  // namespace tw::parameter_server
