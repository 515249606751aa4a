// SPDX-License-Identifier: Apache-2.0
#include <tw/train/learning_rate.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tw/base/contract.hpp>

namespace tw::train {

void LearningRateOptions::validate() const {
  TW_EXPECTS(warm_up_steps >= 0, "learning_rate.warm_up_steps must not be negative, got ", warm_up_steps);
  TW_EXPECTS(step_epochs > 0, "learning_rate.step_epochs must be positive, got ", step_epochs);
  TW_EXPECTS(step_factor > 0, "learning_rate.step_factor must be positive, got ", step_factor);
  TW_EXPECTS(final_factor >= 0 && final_factor <= 1, "learning_rate.final_factor must be in [0, 1], got ", final_factor);
  TW_EXPECTS(base_batch >= 0, "learning_rate.base_batch must not be negative, got ", base_batch);
}

double learning_rate_factor(const LearningRateOptions& options, const RunLength& length, int64_t step) {
  double factor = options.base_batch > 0 ? static_cast<double>(length.global_batch) / static_cast<double>(options.base_batch) : 1.0;
  if (step < options.warm_up_steps) factor *= static_cast<double>(step + 1) / static_cast<double>(options.warm_up_steps);
  switch (options.decay) {
    case LearningRateOptions::Decay::constant: break;
    case LearningRateOptions::Decay::step: {
      const int64_t epoch = step / std::max<int64_t>(1, length.steps_per_epoch);
      factor *= std::pow(options.step_factor, static_cast<double>(epoch / options.step_epochs));
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
