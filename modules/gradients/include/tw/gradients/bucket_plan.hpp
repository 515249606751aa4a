// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

struct BucketOptions {
  /// The first bucket is small, so that communication can begin early in the backward pass.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  /// All others. Must be at least as large as the first.
  int64_t bucket_bytes = int64_t{25} << 20;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};

/// Several gradients of one dtype that travel together.
struct Bucket {
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t numel = 0;               ///< elements, padding included
  std::vector<int64_t> gradients;  ///< ids, in the order in which they lie in the bucket
};

/// Where a gradient lies.
struct Placement {
  int64_t bucket = 0;
  int64_t offset = 0;  ///< elements from the bucket's start
};

/// Which gradient travels in which bucket. The same specs and options give the same plan on every rank.
struct BucketPlan {
  std::vector<Bucket> buckets;        ///< in the order in which they are reduced
  std::vector<Placement> placements;  ///< by gradient id

  /// One line a bucket.
  std::string describe() const;
};

/// Fills buckets with gradients in reverse order of registration, which is about the order in which a backward pass makes them.
/// Gradients begin on cache lines. Buckets are ordered by their last gradient. Pure.
/// @param gradients at least one; the id of a gradient is its index.
BucketPlan plan_buckets(std::span<const TensorSpec> gradients, const BucketOptions& options = {});

}  // namespace tw
