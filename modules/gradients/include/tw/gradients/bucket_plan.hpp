// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tw/base/option.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

struct BucketOptions {
  /// The first bucket of each group is small, so that communication can begin early in the backward pass.
  int64_t first_bucket_bytes = int64_t{1} << 20;
  /// All others. Must be at least as large as the first.
  int64_t bucket_bytes = int64_t{25} << 20;

  /// @throws ContractError naming the wrong field.
  void validate() const;
};
void visit(BucketOptions& options, OptionVisitor& visitor);

/// Several gradients of one dtype that travel together.
struct Bucket {
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t numel = 0;               ///< elements, padding included
  std::vector<int64_t> gradients;  ///< ids, in the order in which they lie in the bucket
  int owner = -1;                  ///< the rank that the whole bucket belongs to; -1: none
};

/// Where a gradient lies.
struct Placement {
  int64_t bucket = -1;  ///< -1: in none
  int64_t offset = 0;   ///< elements from the bucket's start
};

/// What a plan is made for.
struct Arrangement {
  /// Ids in the order of their arrival; those left out stay out of the plan. Unset: reverse order of registration.
  std::optional<std::vector<int64_t>> order = {};
  /// Every bucket can be cut into this many equal slices, each of whole cache lines.
  int64_t slices = 1;
  /// By id, the rank that a gradient belongs to; those of several ranks share no bucket. Empty: nobody's.
  std::vector<int> owners = {};
  /// By id: those of different groups share no bucket. Empty: all are of one.
  std::vector<int64_t> groups = {};
};

/// Which gradient travels in which bucket. The same specs and options make the same plan on every rank.
struct BucketPlan {
  std::vector<Bucket> buckets;        ///< in the order in which they are reduced
  std::vector<Placement> placements;  ///< by gradient id

  /// One line a bucket.
  std::string describe() const;
};

/// Fills buckets with gradients in the order of their arrival; unless that is known, in reverse order of registration, which is about the order in
/// which a backward pass makes them. Gradients begin on cache lines. Buckets are ordered by their last gradient. Pure.
/// @param gradients at least one; the id of a gradient is its index.
BucketPlan plan_buckets(std::span<const TensorSpec> gradients, const BucketOptions& options = {}, const Arrangement& arrangement = {});

/// Shares tensors of this many elements out to `ranks`: the largest first, each to the rank that has least. Pure. @return the rank of each tensor
/// @param groups by tensor: each group is shared out as if there were no other. Empty: all are of one
std::vector<int> assign_owners(std::span<const int64_t> numels, int ranks, std::span<const int64_t> groups = {});

}  // namespace tw
