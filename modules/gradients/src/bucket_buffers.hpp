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

/// The memory of a plan's buckets: all the time or, where ReducerOptions::release says so, of what this rank keeps all the time and of the rest while
/// it is in use: then one bucket at a time has memory that stays for the next one, which the ranks of a node share; others that are in use meanwhile
/// get memory of their own.
class BucketBuffers {
 public:
  /// Collective over `comm` where memory is shared. All are borrowed.
  BucketBuffers(const Communicator& comm, const BucketPlan& plan, const std::vector<TensorSpec>& specs, const ReducerOptions& options);

  /// The whole bucket, shape [numel]; undefined while it is released.
  const at::Tensor& values(size_t bucket) const { return buckets_[bucket].buffer.storage(); }
  /// This rank's part of a sharded one; shares memory with values() unless that is released. Undefined where it has none.
  const at::Tensor& share(size_t bucket) const { return buckets_[bucket].share; }
  /// Where a gradient lies; undefined while that is released, and of one that is in no bucket.
  const at::Tensor& place(int64_t id) const { return places_[static_cast<size_t>(id)]; }
  /// The same, with memory.
  const at::Tensor& place_to_write(int64_t id);
  /// Lets go of the bucket's memory, unless it stays.
  void release(size_t bucket);
  bool stays(size_t bucket) const;
  /// What stays for buckets that come and go; undefined where there is none.
  const at::Tensor& room() const noexcept { return staying_; }

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
  at::Tensor staying_;              // bytes for any bucket; undefined where each has its own
  std::optional<size_t> stays_with_;
};

}  // namespace tw
