// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/gradients/bucket_plan.hpp>

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>
#include <utility>

namespace tw {
namespace {

constexpr int64_t cache_line_bytes = 64;

int64_t rounded_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

int64_t element_bytes(c10::ScalarType dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); }

}  // namespace

void BucketOptions::validate() const {
  TW_EXPECTS(first_bucket_bytes > 0, "first_bucket_bytes must be positive, got ", first_bucket_bytes);
  TW_EXPECTS(bucket_bytes >= first_bucket_bytes, "bucket_bytes (", bucket_bytes, ") must not be smaller than first_bucket_bytes (",
             first_bucket_bytes, ")");
}

BucketPlan plan_buckets(std::span<const TensorSpec> gradients, const BucketOptions& options) {
  options.validate();
  TW_EXPECTS(!gradients.empty(), "there is no gradient to reduce: does any parameter require one?");
  BucketPlan plan;
  plan.placements.resize(gradients.size());
  std::map<c10::ScalarType, Bucket> open;  // the bucket being filled, by dtype
  for (int64_t id = static_cast<int64_t>(gradients.size()) - 1; id >= 0; --id) {
    const TensorSpec& gradient = gradients[static_cast<size_t>(id)];
    const int64_t bytes_each = element_bytes(gradient.dtype);
    const int64_t numel = rounded_up(gradient.numel(), std::max<int64_t>(1, cache_line_bytes / bytes_each));
    const int64_t limit = plan.buckets.empty() ? options.first_bucket_bytes : options.bucket_bytes;
    Bucket& bucket = open[gradient.dtype];
    if (!bucket.gradients.empty() && (bucket.numel + numel) * bytes_each > limit) plan.buckets.push_back(std::exchange(bucket, Bucket{}));
    bucket.dtype = gradient.dtype;
    plan.placements[static_cast<size_t>(id)].offset = bucket.numel;
    bucket.gradients.push_back(id);
    bucket.numel += numel;
  }
  for (auto& [dtype, bucket] : open) plan.buckets.push_back(std::move(bucket));

  std::sort(plan.buckets.begin(), plan.buckets.end(), [](const Bucket& a, const Bucket& b) { return a.gradients.back() > b.gradients.back(); });
  for (size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) {
    for (const int64_t id : plan.buckets[bucket].gradients) plan.placements[static_cast<size_t>(id)].bucket = static_cast<int64_t>(bucket);
  }
  return plan;
}

std::string BucketPlan::describe() const {
  std::string text;
  for (size_t i = 0; i < buckets.size(); ++i) {
    const Bucket& bucket = buckets[i];
    text += concat("bucket ", i, ": ", bucket.gradients.size(), " gradients, ", bucket.numel * element_bytes(bucket.dtype), " bytes of ",
                   dtype_name(bucket.dtype), "\n");
  }
  return text;
}

}  // namespace tw
