// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <vector>

namespace tw {

/// Moves many tensors by few collectives: one for each dtype and 25 MiB.
class FlatBuckets {
 public:
  /// Makes the memory of each bucket when it is its turn, and lets it go. For a single exchange. @param specs the same on all ranks; may be empty
  /// @param device where buckets lie
  FlatBuckets(std::vector<TensorSpec> specs, c10::Device device);
  /// Keeps its memory, which the ranks of a node share where it is the CPU's. For many exchanges. Collective.
  FlatBuckets(const Communicator& comm, std::vector<TensorSpec> specs, c10::Device device);

  /// Of tensor `id`; its shape and dtype are the spec's.
  using Visit = std::function<void(size_t id, const at::Tensor& place)>;

  /// Bucket by bucket: `fill` each tensor's place, `collective` on the whole bucket, `take` what each place holds then.
  void exchange(const Visit& fill, const std::function<void(const at::Tensor& bucket)>& collective, const Visit& take) const;

  /// What one exchange gives to `collective`, padding included.
  int64_t bytes() const noexcept;

 private:
  std::vector<TensorSpec> specs_;
  BucketPlan plan_;
  c10::Device device_;
  std::vector<FlatBuffer> kept_;  // by bucket, or none
};

}  // namespace tw
