// SPDX-License-Identifier: Apache-2.0
#include "residuals.hpp"

#include <tw/base/contract.hpp>

namespace tw {

void Residuals::prepare(const char* compression, const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device) {
  TW_EXPECTS(!prepared_, "this ", compression, " compressor holds the residuals of another Reducer: make one for each Reducer");
  expect_compressible(compression, gradients);
  prepared_ = true;
  views_.resize(gradients.size());
  for (const TensorSpec& spec : gradients) names_.push_back(spec.name);
  for (const Bucket& bucket : plan.buckets) {
    const FlatBuffer& buffer = buckets_.emplace_back(bucket.numel, at::device(device).dtype(bucket.dtype));
    for (const int64_t id : bucket.gradients) {
      const auto index = static_cast<size_t>(id);
      views_[index] = buffer.view(plan.placements[index].offset, gradients[index].shape);
    }
  }
}

void Residuals::take_back(int64_t id, const at::Tensor& sum, int ranks) const {
  const at::Tensor& view = views_.at(static_cast<size_t>(id));
  if (view.defined()) view.add_(sum, 1.0 / ranks);
}

void Residuals::rescale(double factor) const {
  for (const FlatBuffer& bucket : buckets_) bucket.storage().mul_(factor);
}

std::vector<NamedShard> Residuals::shards() const {
  std::vector<NamedShard> shards;
  for (size_t id = 0; id < views_.size(); ++id) {
    if (!views_[id].defined()) continue;  // sparse gradients are in no bucket
    shards.push_back(whole("compression/" + names_[id] + "/residual", views_[id], ShardKind::optimizer));
    shards.back().on_reshard = OnReshard::sum;
  }
  return shards;
}

void expect_compressible(const char* compression, const std::vector<TensorSpec>& gradients) {
  for (const TensorSpec& spec : gradients) {
    TW_EXPECTS(spec.dtype == at::kFloat || spec.dtype == at::kDouble, compression, " needs gradients of float32 or float64, got ", spec.describe());
  }
}

}  // namespace tw
