// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

/// Exchanges many tensors with few collectives: one per dtype and 25 MiB.
class FlatBuckets {
 public:
  /// For a single exchange: allocates each bucket when it is due and frees it afterwards. @param specs the same on all ranks; may be empty
  /// @param device where buckets lie
  FlatBuckets(std::vector<TensorSpec> specs, c10::Device device);
  /// For many exchanges: keeps its buckets, which on CPUs lie in memory that the ranks of a node share. Collective.
  FlatBuckets(const Communicator& comm, std::vector<TensorSpec> specs, c10::Device device);

  /// Called with the memory of tensor `id`, which has its spec's shape and dtype.
  using Visit = std::function<void(size_t id, const at::Tensor& place)>;

  /// Per bucket: calls `fill` for each tensor, `collective` on the whole bucket, then `take` for each tensor.
  void exchange(const Visit& fill, const std::function<void(const at::Tensor& bucket)>& collective, const Visit& take) const;

  /// Bytes passed to `collective` in one exchange, padding included.
  int64_t bytes() const noexcept;

 private:
  std::vector<TensorSpec> specs_;
  BucketPlan plan_;
  c10::Device device_;
  std::vector<FlatBuffer> kept_;  // by bucket; empty for a single exchange
};

}  // namespace tw
