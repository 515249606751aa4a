// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>

#include <limits>

namespace tw::train {

void Options::validate() const {
  TW_EXPECTS(!name.empty(), "name must not be empty");
  TW_EXPECTS(epochs >= 0, "epochs must not be negative, got ", epochs);
  TW_EXPECTS(batch_size > 0, "batch_size must be positive, got ", batch_size);
  TW_EXPECTS(global_batch >= 0, "global_batch must not be negative, got ", global_batch);
  TW_EXPECTS(accumulation > 0, "accumulation must be positive, got ", accumulation);
  TW_EXPECTS(seed >= 0, "seed must not be negative, got ", seed);
  TW_EXPECTS(evaluate_every > 0, "evaluate_every must be positive, got ", evaluate_every);
  TW_EXPECTS(checkpoint.every_epochs >= 0, "checkpoint.every_epochs must not be negative, got ", checkpoint.every_epochs);
  TW_EXPECTS(checkpoint.every_steps >= 0, "checkpoint.every_steps must not be negative, got ", checkpoint.every_steps);
  TW_EXPECTS(checkpoint.keep > 0, "checkpoint.keep must be positive, got ", checkpoint.keep);
  TW_EXPECTS(early_stopping.patience >= 0, "early_stopping.patience must not be negative, got ", early_stopping.patience);
  TW_EXPECTS(early_stopping.min_delta >= 0, "early_stopping.min_delta must not be negative, got ", early_stopping.min_delta);
  TW_EXPECTS(loader_workers >= 0, "loader_workers must not be negative, got ", loader_workers);
  learning_rate.validate();
}

int64_t Options::samples_of_a_pass(int64_t samples, int ranks) const {
  TW_EXPECTS(samples % accumulation == 0, "accumulation must divide the global batch of ", samples, ", got ", accumulation);
  const int64_t pass = samples / accumulation;
  TW_EXPECTS(uneven == Uneven::exact || pass % ranks == 0, "where samples are dropped or padded, the ", pass, " of a pass (global batch ", samples,
             ", accumulation ", accumulation, ") must be shared evenly by the ", ranks, " ranks");
  return pass;
}

double figure(const Figures& figures, const std::string& name) {
  for (const auto& [key, value] : figures) {
    if (key == name) return value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tw::train
