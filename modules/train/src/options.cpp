// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/train/options.hpp>
#include <tw/train/report.hpp>

#include <algorithm>
#include <iomanip>
#include <limits>

namespace tw::train {

std::string why_no_name(const std::string& name) {
  if (name.empty()) return "must not be empty";
  const bool plain = std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '/'; });
  return plain && name != "." && name != ".." ? "" : "must be the name of one folder, without \"/\" and control characters";
}

void Options::validate() const {
  TW_EXPECTS(why_no_name(name).empty(), "name ", why_no_name(name));
  TW_EXPECTS(epochs >= 0, "epochs must not be negative, got ", epochs);
  TW_EXPECTS(batch_size > 0, "batch_size must be positive, got ", batch_size);
  TW_EXPECTS(batch_size <= most_samples_of_a_batch, "batch_size must be at most ", most_samples_of_a_batch, ", got ", batch_size);
  TW_EXPECTS(global_batch >= 0, "global_batch must not be negative, got ", global_batch);
  TW_EXPECTS(global_batch <= most_samples_of_a_batch, "global_batch must be at most ", most_samples_of_a_batch, ", got ", global_batch);
  TW_EXPECTS(accumulation > 0, "accumulation must be positive, got ", accumulation);
  TW_EXPECTS(seed >= 0, "seed must not be negative, got ", seed);
  TW_EXPECTS(evaluate_every > 0, "evaluate_every must be positive, got ", evaluate_every);
  TW_EXPECTS(checkpoint.every_epochs >= 0, "checkpoint.every_epochs must not be negative, got ", checkpoint.every_epochs);
  TW_EXPECTS(checkpoint.every_steps >= 0, "checkpoint.every_steps must not be negative, got ", checkpoint.every_steps);
  TW_EXPECTS(checkpoint.keep > 0, "checkpoint.keep must be positive, got ", checkpoint.keep);
  TW_EXPECTS(early_stopping.patience >= 0, "early_stopping.patience must not be negative, got ", early_stopping.patience);
  TW_EXPECTS(early_stopping.min_delta >= 0, "early_stopping.min_delta must not be negative, got ", early_stopping.min_delta);
  TW_EXPECTS(loader_workers >= 0, "loader_workers must not be negative, got ", loader_workers);
  TW_EXPECTS(loader_workers <= LoaderOptions::most_workers, "loader_workers must be at most ", LoaderOptions::most_workers, ", got ", loader_workers);
  learning_rate.validate();
  strategy.validate();
}

std::vector<std::string> Options::describe() const {
  std::vector<std::string> lines;
  const auto add = [&](const char* key, const auto& value) {
    lines.push_back(concat(std::setprecision(std::numeric_limits<double>::max_digits10), key, ' ', value));
  };
  add("name", name);
  add("epochs", epochs);
  add("batch_size", batch_size);
  add("global_batch", global_batch);
  add("accumulation", accumulation);
  add("seed", seed);
  add("uneven", static_cast<int>(uneven));
  add("evaluate_every", evaluate_every);
  lines.push_back(strategy.describe());
  add("learning_rate.decay", static_cast<int>(learning_rate.decay));
  add("learning_rate.warm_up_steps", learning_rate.warm_up_steps);
  add("learning_rate.step_epochs", learning_rate.step_epochs);
  add("learning_rate.step_factor", learning_rate.step_factor);
  add("learning_rate.final_factor", learning_rate.final_factor);
  add("learning_rate.base_batch", learning_rate.base_batch);
  add("checkpoint.every_epochs", checkpoint.every_epochs);
  add("checkpoint.every_steps", checkpoint.every_steps);
  add("checkpoint.keep", checkpoint.keep);
  add("early_stopping.patience", early_stopping.patience);
  add("early_stopping.min_delta", early_stopping.min_delta);
  add("early_stopping.watch", early_stopping.watch);
  add("non_finite", static_cast<int>(non_finite));
  add("resume", static_cast<int>(resume));
  add("trace", trace.empty() ? "none" : "given");
  return lines;
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
