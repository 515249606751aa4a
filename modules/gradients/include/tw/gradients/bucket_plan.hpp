// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <tw/base/option.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

struct BucketOptions {
  /// Maximum bytes of the first bucket of each group (Arrangement::groups). It is small so that communication begins early in the backward pass.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  /// Maximum bytes of all other buckets; at least first_bucket_bytes. A gradient larger than the limit has a bucket to itself.
  int64_t bucket_bytes = int64_t{25} << 20;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(BucketOptions& options, OptionVisitor& visitor);

/// Several gradients of one dtype that are reduced together.
struct Bucket {
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t numel = 0;               ///< elements, padding included
  std::vector<int64_t> gradients;  ///< ids, in the order in which they lie in the bucket
  int owner = -1;                  ///< rank that owns the whole bucket; -1: none
};

/// Position of a gradient in a BucketPlan.
struct Placement {
  int64_t bucket = -1;  ///< -1: the gradient is in no bucket
  int64_t offset = 0;   ///< elements from the bucket's start
};

/// Constraints on a BucketPlan.
struct Arrangement {
  /// Gradient ids in order of arrival, the order in which a backward pass computes them. Ids that are missing here stay out of the plan. Unset:
  /// descending ids.
  std::optional<std::vector<int64_t>> order = {};
  /// Number of equal slices into which every bucket can be cut. Each slice consists of whole cache lines.
  int64_t slices = 1;
  /// Owning rank of each gradient, by id. Gradients of different owners share no bucket. Empty: no owners.
  std::vector<int> owners = {};
  /// Group of each gradient, by id. Gradients of different groups share no bucket. Empty: one group.
  std::vector<int64_t> groups = {};
};

/// Assignment of gradients to buckets. The same arguments of plan_buckets() make the same plan on every rank.
struct BucketPlan {
  std::vector<Bucket> buckets;        ///< in the order in which they are reduced
  std::vector<Placement> placements;  ///< by gradient id
};

/// Fills buckets with gradients in order of arrival (Arrangement::order). If this order is unset, plan_buckets() uses descending ids, because
/// backward passes compute gradients roughly in the reverse order of the parameters. Gradients begin on cache lines. Buckets are ordered by the
/// arrival of their last gradient. Pure.
/// @param gradients at least one; the id of a gradient is its index here.
BucketPlan plan_buckets(std::span<const TensorSpec> gradients, const BucketOptions& options = {}, const Arrangement& arrangement = {});

/// Distributes tensors of `numels` elements over `ranks` ranks: the largest first, each to the rank with the fewest elements so far. Pure. @return
/// the rank of each tensor
/// @param groups group of each tensor; each group is distributed independently. Empty: one group
std::vector<int> assign_owners(std::span<const int64_t> numels, int ranks, std::span<const int64_t> groups = {});

}  // namespace tw
