// SPDX-License-Identifier: Apache-2.0
#include <tw/train/precision.hpp>

namespace tw::train {

void visit(PrecisionOptions& options, OptionVisitor& visitor) {
  const Condition mixed{"precision.compute", {"bfloat16", "float16"}};
  LossScalerOptions& scale = options.loss_scale;
  visitor.field("compute", options.compute, compute_type_names(),
                {.meaning = "dtype of forward passes; parameters, gradients and the optimizer stay float32"});
  visitor.field(
      "scale_loss", options.scale_loss,
      {.meaning = "whether losses are scaled with bfloat16; with float16 they always are", .applies_if = {{"precision.compute", {"bfloat16"}}}});
  visitor.field("loss_scale", scale.scale, {.least = 0, .excludes_least = true}, {.meaning = "initial factor of losses", .applies_if = {mixed}});
  visitor.field("growth", scale.growth, {.least = 1},
                {.meaning = "factor of the scale after `growth_interval` updates without overflow", .applies_if = {mixed}});
  visitor.field("backoff", scale.backoff, {.least = 0, .most = 1, .excludes_least = true, .excludes_most = true},
                {.meaning = "factor of the scale after an overflow", .applies_if = {mixed}});
  visitor.field("growth_interval", scale.growth_interval, {.least = 1},
                {.meaning = "updates without overflow before the scale grows", .unit = "updates", .applies_if = {mixed}});
}

std::vector<Problem> PrecisionOptions::contradictions() const {
  if (!scale_loss || compute != ComputeType::float32) return {};
  return {{"precision.scale_loss", "needs precision.compute = \"bfloat16\"", "false"}};
}

}  // namespace tw::train
