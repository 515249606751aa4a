// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <vector>

namespace tw {

/// The memory of a plan's buckets. Without ReducerOptions::release it is permanent. With it, only this rank's share is permanent, and a bucket has
/// memory only while in use. One bucket at a time uses a permanent buffer that the ranks of a node share; other buckets then have their own memory.
class BucketBuffers {
 public:
  /// Collective over `comm` if memory is shared. Borrows its arguments.
  BucketBuffers(const Communicator& comm, const BucketPlan& plan, const std::vector<TensorSpec>& specs, const ReducerOptions& options);

  /// The whole bucket, shape [numel]; undefined while released.
  const at::Tensor& values(size_t bucket) const { return buckets_[bucket].buffer.storage(); }
  /// This rank's share of a sharded bucket; shares memory with values() unless that is released. Undefined if it has none.
  const at::Tensor& share(size_t bucket) const { return buckets_[bucket].share; }
  /// The memory of a gradient; undefined while released, or if the gradient is in no bucket.
  const at::Tensor& place(int64_t id) const { return places_[static_cast<size_t>(id)]; }
  /// The same, allocated if necessary.
  const at::Tensor& place_to_write(int64_t id);
  /// Releases the bucket's memory unless it is permanent.
  void release(size_t bucket);
  bool stays(size_t bucket) const;
  /// The reused buffer for released buckets; undefined if there is none.
  const at::Tensor& kept_buffer() const noexcept { return reused_buffer_; }

 private:
  void make(size_t bucket);
  at::Tensor memory_for(size_t bucket);

  struct Memory {
    FlatBuffer buffer;
    at::Tensor share;
  };
  const Communicator& comm_;
  const BucketPlan& plan_;
  const std::vector<TensorSpec>& specs_;
  const ReducerOptions& options_;
  std::vector<Memory> buckets_;
  std::vector<at::Tensor> places_;  // by gradient
  at::Tensor reused_buffer_;        // bytes for any bucket; undefined if each has its own memory
  std::optional<size_t> reused_by_;
};

}  // namespace tw
