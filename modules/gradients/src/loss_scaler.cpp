// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/gradients/loss_scaler.hpp>

namespace tw {

void LossScalerOptions::validate() const {
  TW_EXPECTS(scale > 0, "scale must be positive, got ", scale);
  TW_EXPECTS(growth >= 1, "growth must be at least 1, got ", growth);
  TW_EXPECTS(backoff > 0 && backoff < 1, "backoff must lie between 0 and 1, got ", backoff);
  TW_EXPECTS(growth_interval > 0, "growth_interval must be positive, got ", growth_interval);
}

LossScaler::LossScaler(const LossScalerOptions& options) : options_(options), scale_(options.scale) { options_.validate(); }

void LossScaler::update(bool finite) noexcept {
  if (!finite) {
    scale_ *= options_.backoff;
    good_updates_ = 0;
  } else if (++good_updates_ == options_.growth_interval) {
    scale_ *= options_.growth;
    good_updates_ = 0;
  }
}

void LossScaler::restore(double scale, int64_t good_updates) noexcept {
  scale_ = scale;
  good_updates_ = good_updates;
}

}  // namespace tw
