// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/gradients/compressor.hpp>

namespace tw {

struct LossScalerOptions {
  double scale = 65536;  ///< initial scale; a power of two leaves mantissas unchanged
  double growth = 2;     ///< the scale is multiplied by this after `growth_interval` updates without overflow
  double backoff = 0.5;  ///< the scale is multiplied by this after an overflow
  int64_t growth_interval = 2000;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LossScalerOptions& options, OptionVisitor& visitor);

/// Scales the loss so that half-precision gradients neither vanish nor overflow. The scale depends only on the arguments of update(), so ranks that
/// pass the same arguments have the same scale. Ref: Micikevicius et al. 2018, Mixed Precision Training.
class LossScaler {
 public:
  /// @param compressor the compressor, if any, of the Reducer that reduces the scaled gradients: its residuals are rescaled with the loss
  explicit LossScaler(const LossScalerOptions& options = {}, std::shared_ptr<Compressor> compressor = {});

  /// The factor by which to multiply the next loss.
  double scale() const noexcept { return scale_; }
  /// Adjusts the scale after a step. @param finite whether the gradients of all ranks were finite.
  void update(bool finite);
  /// Number of updates without overflow since the scale changed. A checkpoint needs only this and scale().
  int64_t good_updates() const noexcept { return good_updates_; }
  /// Restores a saved state. It does not rescale the compressor's residuals, because a checkpoint has them at the saved scale.
  void restore(double scale, int64_t good_updates) noexcept;

 private:
  void set_scale(double scale);

  LossScalerOptions options_;
  std::shared_ptr<Compressor> compressor_;
  double scale_;
  int64_t good_updates_ = 0;
};

}  // namespace tw
