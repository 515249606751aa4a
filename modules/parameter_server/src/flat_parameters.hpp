// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::parameter_server {

/// What a worker trains, as one flat tensor.
class FlatParameters {
 public:
  /// @throws ContractError unless all are floating point numbers of one type, of which there is one at least
  explicit FlatParameters(std::vector<at::Tensor> parameters);

  /// Copies of the values, and of the gradients, zeros where there are none: shape [numel].
  at::Tensor values() const;
  at::Tensor gradients() const;
  /// Makes the values those of `flat`.
  void set(const at::Tensor& flat) const;

 private:
  template <class Of>
  at::Tensor gathered(Of of) const;

  std::vector<at::Tensor> parameters_;
  FlatLayout layout_;
};

}  // namespace tw::parameter_server
