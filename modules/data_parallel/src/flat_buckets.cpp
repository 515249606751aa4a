// SPDX-License-Identifier: Apache-2.0
#include "flat_buckets.hpp"

#include <ATen/core/grad_mode.h>

#include <tw/comm/shared_tensor.hpp>

namespace tw {

FlatBuckets::FlatBuckets(std::vector<TensorSpec> specs, c10::Device device) : specs_(std::move(specs)), device_(device) {
  if (!specs_.empty()) plan_ = plan_buckets(specs_);
}

FlatBuckets::FlatBuckets(const Communicator& comm, std::vector<TensorSpec> specs, c10::Device device) : FlatBuckets(std::move(specs), device) {
  for (const Bucket& bucket : plan_.buckets) kept_.emplace_back(shared_tensor(comm, {bucket.numel}, at::device(device).dtype(bucket.dtype)));
}

void FlatBuckets::exchange(const Visit& fill, const std::function<void(const at::Tensor&)>& collective, const Visit& take) const {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Bucket& bucket = plan_.buckets[i];
    const FlatBuffer flat = kept_.empty() ? FlatBuffer(bucket.numel, at::device(device_).dtype(bucket.dtype)) : kept_[i];
    const auto visit_all = [&](const Visit& visit) {
      for (const int64_t index : bucket.gradients) {
        const auto id = static_cast<size_t>(index);
        visit(id, flat.view(plan_.placements[id].offset, specs_[id].shape));
      }
    };
    visit_all(fill);
    collective(flat.storage());
    visit_all(take);
  }
}

int64_t FlatBuckets::bytes() const noexcept {
  int64_t bytes = 0;
  for (const Bucket& bucket : plan_.buckets) bytes += bucket.numel * static_cast<int64_t>(c10::elementSize(bucket.dtype));
  return bytes;
}

}  // namespace tw
