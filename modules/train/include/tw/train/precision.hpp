// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/autograd/compute_type.hpp>
#include <tw/base/option.hpp>
#include <tw/gradients/loss_scaler.hpp>
#include <vector>

namespace tw::train {

/// Precision of forward passes, in training and in evaluation. Parameters, gradients, their reduction and the optimizer stay in float32.
/// docs/strategies/precision.md lists supported models and the cost.
struct PrecisionOptions {
  ComputeType compute = ComputeType::float32;  ///< float32: no autocast; computes in the parameters' dtype
  bool scale_loss = false;                     ///< whether losses are scaled with bfloat16, which rarely needs it; with float16 they always are
  LossScalerOptions loss_scale = {};

  /// Whether losses are scaled.
  bool scales() const noexcept { return compute == ComputeType::float16 || (compute == ComputeType::bfloat16 && scale_loss); }
  /// Values that contradict each other. Problems have keys as in Options, such as "precision.scale_loss".
  std::vector<Problem> contradictions() const;
};
void visit(PrecisionOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
