// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/gradients/clipping.hpp>

#include "parallel_model_impl.hpp"

namespace tw {

double ParallelModel::Impl::clip(double max_norm) {
  GradientShare share;
  TW_ASSERT(counted_.size() == optimized_.size() || optimized_.empty());
  for (size_t i = 0; i < optimized_.size(); ++i) {
    const at::Tensor& gradient = optimized_[i].tensor.grad();
    if (gradient.defined()) (counted_[i] != 0 ? share.counted : share.others).push_back(gradient);
  }
  if (ranks_->parts().comm() != nullptr) share.sum_over.push_back(ranks_->parts().comm());
  return clip_gradient_norm(share, max_norm);
}

void ParallelModel::Impl::expect_own(const torch::optim::Optimizer& optimizer, const StepOptions& options) {
  if (knows_optimizer_ || (options.scaler == nullptr && options.max_norm == 0)) return;
  on_all_ranks(ranks_->comm(), "checking the optimizer of a step", [&] {
    for (const auto& group : optimizer.param_groups()) {
      for (const at::Tensor& each : group.params()) {
        const bool is_trained = each.requires_grad() && each.has_storage() && each.storage().nbytes() > 0;
        TW_EXPECTS(!is_trained || own_tensors_.contains(each.unsafeGetTensorImpl()), "the optimizer has a tensor of shape ", each.sizes(),
                   " that is not the model's, whose gradient step() would neither divide by the scale of the loss nor clip: train it with a ",
                   "separate optimizer");
      }
    }
  });
  knows_optimizer_ = true;
}

bool ParallelModel::Impl::step(torch::optim::Optimizer& optimizer, const StepOptions& options) {
  const double scale = options.scaler == nullptr ? 1 : options.scaler->scale();
  const double norm = clip(options.max_norm > 0 ? options.max_norm * scale : std::numeric_limits<double>::infinity());
  const bool is_finite = std::isfinite(norm);
  if (options.scaler != nullptr) options.scaler->update(is_finite);
  if (!is_finite) return false;
  if (scale != 1) {
    const at::NoGradGuard no_grad;
    for (const OptimizedTensor& each : optimized_) {
      if (each.tensor.grad().defined()) each.tensor.mutable_grad().div_(scale);
    }
  }
  optimizer.step();
  return true;
}

}  // namespace tw
