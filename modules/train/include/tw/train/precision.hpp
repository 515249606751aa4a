// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/option.hpp>
#include <tw/gradients/loss_scaler.hpp>
#include <vector>

namespace tw::train {

/// What operators compute in where LibTorch's autocast says that they may.
enum class ComputeType { float32, bfloat16, float16 };

/// How forward passes are computed, in training and in evaluation. Parameters, gradients, their reduction and the optimizer stay as the model has
/// them, in float32; docs/strategies/precision.md says which models can and what it costs.
struct PrecisionOptions {
  ComputeType compute = ComputeType::float32;  ///< float32: as the model's parameters are, without autocast
  bool scale_loss = false;                     ///< of bfloat16, which seldom needs it; with float16 losses are always scaled
  LossScalerOptions loss_scale = {};

  /// Whether a LossScaler is at work.
  bool scales() const noexcept { return compute == ComputeType::float16 || (compute == ComputeType::bfloat16 && scale_loss); }
  /// What does not go together. Keys as in Options.
  std::vector<Problem> contradictions() const;
};
void visit(PrecisionOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
