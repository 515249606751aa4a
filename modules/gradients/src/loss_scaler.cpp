// SPDX-License-Identifier: Apache-2.0
#include <tw/gradients/loss_scaler.hpp>
#include <utility>

namespace tw {

void visit(LossScalerOptions& options, OptionVisitor& visitor) {
  visitor.field("scale", options.scale, {.least = 0, .excludes_least = true}, {.meaning = "initial scale"});
  visitor.field("growth", options.growth, {.least = 1}, {.meaning = "factor of the scale after `growth_interval` updates without overflow"});
  visitor.field("backoff", options.backoff, {.least = 0, .most = 1, .excludes_least = true, .excludes_most = true},
                {.meaning = "factor of the scale after an overflow"});
  visitor.field("growth_interval", options.growth_interval, {.least = 1},
                {.meaning = "updates without overflow before the scale grows", .unit = "updates"});
}
void LossScalerOptions::validate() const { expect_none(out_of_bounds(*this)); }

LossScaler::LossScaler(const LossScalerOptions& options, std::shared_ptr<Compressor> compressor)
    : options_(options), compressor_(std::move(compressor)), scale_(options.scale) {
  options_.validate();
}

void LossScaler::update(bool finite) {
  if (!finite) {
    set_scale(scale_ * options_.backoff);
  } else if (++good_updates_ >= options_.growth_interval) {
    set_scale(scale_ * options_.growth);
  }
}

void LossScaler::set_scale(double scale) {
  if (compressor_) compressor_->rescale(scale / scale_);
  scale_ = scale;
  good_updates_ = 0;
}

void LossScaler::restore(double scale, int64_t good_updates) noexcept {
  scale_ = scale;
  good_updates_ = good_updates;
}

}  // namespace tw
