// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <tw/base/option.hpp>
#include <tw/gradients/compressor.hpp>

namespace tw {

struct LossScalerOptions {
  double scale = 65536;  ///< at the beginning; a power of two keeps mantissas as they are
  double growth = 2;     ///< factor after `growth_interval` updates without overflow
  double backoff = 0.5;  ///< factor after an overflow
  int64_t growth_interval = 2000;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(LossScalerOptions& options, OptionVisitor& visitor);

/// Scales a loss such that gradients of half precision neither vanish nor overflow. The factor depends on the arguments of update() alone, so
/// ranks that pass the same arguments have the same factor. Ref: Micikevicius et al. 2018, Mixed Precision Training.
class LossScaler {
 public:
  /// @param compressor of the Reducer that reduces the scaled gradients, if any: what it holds back for the next step is rescaled with the loss
  explicit LossScaler(const LossScalerOptions& options = {}, std::shared_ptr<Compressor> compressor = {});

  /// The factor for the next loss.
  double scale() const noexcept { return scale_; }
  /// @param finite whether the gradients of the last one were, on all ranks.
  void update(bool finite);
  /// Updates since the scale changed; with scale() all that there is to save.
  int64_t good_updates() const noexcept { return good_updates_; }
  /// Goes on from what another scaler had. What a compressor holds back has that scale already.
  void restore(double scale, int64_t good_updates) noexcept;

 private:
  void set_scale(double scale);

  LossScalerOptions options_;
  std::shared_ptr<Compressor> compressor_;
  double scale_;
  int64_t good_updates_ = 0;
};

}  // namespace tw
