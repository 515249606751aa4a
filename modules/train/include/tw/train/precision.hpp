// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/autograd/compute_type.hpp>
#include <tw/base/option.hpp>
#include <tw/gradients/loss_scaler.hpp>
#include <vector>

namespace tw::train {

/// Precision of forward passes and losses, in training and in evaluation. bfloat16 and float16 need trained parameters in float32: the parameters,
/// their gradients and the optimizer's state stay in float32. So does the reduction of gradients, unless ReplicaOptions::compression selects a 16-bit
/// dtype. docs/strategies/precision.md lists supported models and the cost.
struct PrecisionOptions {
  /// float32: the trainer leaves LibTorch's autocast as it is; if autocast is off, operators compute in the parameters' dtype.
  ComputeType compute = ComputeType::float32;
  bool scale_loss = false;            ///< only with bfloat16, which rarely needs it: whether losses are scaled. With float16 they always are
  LossScalerOptions loss_scale = {};  ///< only if scales()

  /// Whether the trainer scales losses.
  bool scales() const noexcept { return compute == ComputeType::float16 || (compute == ComputeType::bfloat16 && scale_loss); }
  /// One problem if `scale_loss` is set although `compute` is float32, otherwise none. Its key is as in Options: "precision.scale_loss".
  /// Options::contradictions() also checks scaled losses against other options.
  std::vector<Problem> contradictions() const;
};
void visit(PrecisionOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
