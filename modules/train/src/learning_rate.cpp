// SPDX-License-Identifier: Apache-2.0
#include <tw/train/learning_rate.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tw::train {

void visit(LearningRateOptions& options, OptionVisitor& visitor) {
  using Decay = LearningRateOptions::Decay;
  const std::vector<std::pair<std::string, Decay>> decays{{"constant", Decay::constant}, {"step", Decay::step}, {"cosine", Decay::cosine}};
  visitor.field("decay", options.decay, decays, {.meaning = "how the learning rate falls"});
  visitor.field("warm_up_steps", options.warm_up_steps, at_least(0),
                {.meaning = "updates in which the learning rate rises linearly, from 1/warm_up_steps of its value to all of it", .unit = "updates"});
  visitor.field("step_epochs", options.step_epochs, at_least(1),
                {.meaning = "epochs after which the learning rate is multiplied by step_factor",
                 .unit = "epochs",
                 .applies_if = {{"schedule.decay", {"step"}}}});
  visitor.field("step_factor", options.step_factor, {.least = 0, .excludes_least = true},
                {.meaning = "factor of the learning rate at each step", .applies_if = {{"schedule.decay", {"step"}}}});
  visitor.field("final_factor", options.final_factor, {.least = 0, .most = 1},
                {.meaning = "share of the learning rate that is left at the end of the run", .applies_if = {{"schedule.decay", {"cosine"}}}});
  visitor.field(
      "base_batch", options.base_batch, at_least(0),
      {.meaning = "global batch to which the learning rate belongs; the rate is scaled in proportion to the actual global batch; 0: no scaling",
       .unit = "samples"});
}

void LearningRateOptions::validate() const { expect_none(out_of_bounds(*this)); }

double learning_rate_factor(const LearningRateOptions& options, const RunLength& length, int64_t step) {
  double factor = options.base_batch > 0 ? static_cast<double>(length.global_batch) / static_cast<double>(options.base_batch) : 1.0;
  if (step < options.warm_up_steps) factor *= static_cast<double>(step + 1) / static_cast<double>(options.warm_up_steps);
  switch (options.decay) {
    case LearningRateOptions::Decay::constant: break;
    case LearningRateOptions::Decay::step: {
      const int64_t epoch = step / std::max<int64_t>(1, length.steps_per_epoch);
      const int64_t decays = epoch / options.step_epochs;
      factor *= std::pow(options.step_factor, static_cast<double>(decays));
      break;
    }
    case LearningRateOptions::Decay::cosine: {
      const auto decayed = static_cast<double>(std::max<int64_t>(0, step - options.warm_up_steps));
      const auto all = static_cast<double>(std::max<int64_t>(1, length.steps_per_epoch * length.epochs - options.warm_up_steps));
      const double left = 0.5 * (1 + std::cos(std::numbers::pi * std::min(1.0, decayed / all)));
      factor *= options.final_factor + (1 - options.final_factor) * left;
      break;
    }
  }
  return factor;
}

}  // namespace tw::train
