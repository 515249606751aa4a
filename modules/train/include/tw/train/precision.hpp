// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/option.hpp>
#include <tw/gradients/loss_scaler.hpp>
#include <vector>

namespace tw::train {

/// The dtype in which operators compute, where LibTorch's autocast allows it.
enum class ComputeType { float32, bfloat16, float16 };

/// How forward passes are computed, in training and in evaluation. Parameters, gradients, their reduction and the optimizer stay as the model has
/// them, in float32; docs/strategies/precision.md lists the models that can and what it costs.
struct PrecisionOptions {
  ComputeType compute = ComputeType::float32;  ///< float32: as the model's parameters are, without autocast
  bool scale_loss = false;                     ///< of bfloat16, which seldom needs it; with float16 losses are always scaled
  LossScalerOptions loss_scale = {};

  /// Whether a LossScaler is at work.
  bool scales() const noexcept { return compute == ComputeType::float16 || (compute == ComputeType::bfloat16 && scale_loss); }
  /// Values that contradict each other. Keys as in Options.
  std::vector<Problem> contradictions() const;
};
void visit(PrecisionOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
