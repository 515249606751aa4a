// SPDX-License-Identifier: Apache-2.0
// Mixed precision: forward passes in a smaller dtype than that of the parameters.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <optional>
#include <string>
#include <tw/autograd/autocast.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <utility>
#include <vector>

namespace tw {

/// The dtype in which operators compute, where LibTorch's autocast allows it. float32 leaves autocast as it is; if it is off, operators compute in
/// the parameters' dtype.
enum class ComputeType { float32, bfloat16, float16 };

/// The compute types and their names in options.
const std::vector<std::pair<std::string, ComputeType>>& compute_type_names();

/// Checks that operators can compute in `type`; float32 always passes. @throws ContractError if LibTorch has no autocast for devices of `kind`, or if
/// a parameter that requires a gradient is not in float32. In the second case the message names this parameter.
void expect_autocast(ComputeType type, const std::vector<NamedTensor>& parameters, c10::DeviceType kind);

/// Returns `tensor`, converted to float32 if it is in float16 or bfloat16. `tensor` may be undefined.
at::Tensor in_float32(const at::Tensor& tensor);

/// While it exists, this thread's operators on devices of `kind` compute in `type`. For float32 it changes nothing.
class ComputeScope {
 public:
  /// @throws ContractError as AutocastState::on() does
  ComputeScope(ComputeType type, c10::DeviceType kind);

 private:
  std::optional<AutocastScope> scope_;
};

}  // namespace tw
