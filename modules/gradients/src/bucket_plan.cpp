// SPDX-License-Identifier: Apache-2.0
#include <tw/base/contract.hpp>
#include <tw/base/numbers.hpp>
#include <tw/gradients/bucket_plan.hpp>

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace tw {
namespace {

constexpr int64_t cache_line_bytes = 64;

int64_t rounded_up(int64_t value, int64_t multiple) { return divide_up(value, multiple) * multiple; }

int64_t element_bytes(c10::ScalarType dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); }

int64_t elements_per_cache_line(c10::ScalarType dtype) { return std::max<int64_t>(1, cache_line_bytes / element_bytes(dtype)); }

}  // namespace

void visit(BucketOptions& options, OptionVisitor& visitor) {
  visitor.field("first_bucket_bytes", options.first_bucket_bytes, {.least = 1},
                {.meaning = "bytes of the first bucket, which is small so that communication can begin early", .unit = "bytes"});
  visitor.field("bucket_bytes", options.bucket_bytes, {.least = 1}, {.meaning = "bytes of each other bucket", .unit = "bytes"});
}

void BucketOptions::validate() const {
  expect_none(out_of_bounds(*this));
  TW_EXPECTS(bucket_bytes >= first_bucket_bytes, "bucket_bytes (", bucket_bytes, ") must not be smaller than first_bucket_bytes (",
             first_bucket_bytes, ")");
}

BucketPlan plan_buckets(std::span<const TensorSpec> gradients, const BucketOptions& options, const Arrangement& arrangement) {
  options.validate();
  TW_EXPECTS(!gradients.empty(), "there is no gradient to reduce: does any parameter require one?");
  std::vector<int64_t> order(gradients.size());
  std::iota(order.rbegin(), order.rend(), int64_t{0});
  if (arrangement.order) order = *arrangement.order;
  BucketPlan plan;
  plan.placements.resize(gradients.size());
  using Kind = std::tuple<int, c10::ScalarType, int64_t>;  // gradients of one owner, dtype and group share buckets
  std::map<Kind, Bucket> open;                             // the bucket being filled
  std::set<int64_t> groups_begun;                          // those with a closed bucket
  const auto close = [&](const Kind& kind) {
    Bucket& bucket = open[kind];
    const int64_t line = elements_per_cache_line(bucket.dtype);
    bucket.numel = rounded_up(bucket.numel, line * arrangement.slices);
    plan.buckets.push_back(std::exchange(bucket, Bucket{}));
    groups_begun.insert(std::get<2>(kind));
  };
  for (const int64_t id : order) {
    const TensorSpec& gradient = gradients[static_cast<size_t>(id)];
    const int64_t numel = rounded_up(gradient.numel(), elements_per_cache_line(gradient.dtype));
    const Kind kind{arrangement.owners.empty() ? -1 : arrangement.owners[static_cast<size_t>(id)], gradient.dtype,
                    arrangement.groups.empty() ? 0 : arrangement.groups[static_cast<size_t>(id)]};
    const int64_t limit = groups_begun.contains(std::get<2>(kind)) ? options.bucket_bytes : options.first_bucket_bytes;
    if (!open[kind].gradients.empty() && (open[kind].numel + numel) * element_bytes(gradient.dtype) > limit) close(kind);
    Bucket& bucket = open[kind];
    bucket.owner = std::get<0>(kind);
    bucket.dtype = gradient.dtype;
    plan.placements[static_cast<size_t>(id)].offset = bucket.numel;
    bucket.gradients.push_back(id);
    bucket.numel += numel;
  }
  for (const auto& [kind, bucket] : open) close(kind);

  std::vector<size_t> arrival(gradients.size());
  for (size_t i = 0; i < order.size(); ++i) arrival[static_cast<size_t>(order[i])] = i;
  std::sort(plan.buckets.begin(), plan.buckets.end(), [&](const Bucket& a, const Bucket& b) {
    return arrival[static_cast<size_t>(a.gradients.back())] < arrival[static_cast<size_t>(b.gradients.back())];
  });
  for (size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) {
    for (const int64_t id : plan.buckets[bucket].gradients) plan.placements[static_cast<size_t>(id)].bucket = static_cast<int64_t>(bucket);
  }
  return plan;
}

std::vector<int> assign_owners(std::span<const int64_t> numels, int ranks, std::span<const int64_t> groups) {
  std::vector<size_t> order(numels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return numels[a] > numels[b]; });
  std::map<int64_t, std::vector<int64_t>> loads;  // by group and rank
  std::vector<int> owners(numels.size());
  for (const size_t tensor : order) {
    std::vector<int64_t>& load = loads.try_emplace(groups.empty() ? 0 : groups[tensor], static_cast<size_t>(ranks)).first->second;
    const auto least = std::min_element(load.begin(), load.end());
    owners[tensor] = static_cast<int>(least - load.begin());
    *least += numels[tensor];
  }
  return owners;
}

}  // namespace tw
