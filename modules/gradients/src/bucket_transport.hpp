// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/gradients/compressor.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw {

/// How a bucket is summed over the ranks, and who gets the sum.
class BucketTransport {
 public:
  virtual ~BucketTransport() = default;

  /// Collective; in one order on all ranks. @param values the whole bucket. @param share this rank's part of the sum, where each has its own
  virtual BucketSum begin(const Communicator& comm, size_t index, const Bucket& bucket, const at::Tensor& values, const at::Tensor& share) = 0;
  /// Whether a factor that comes after the sum does the same as one before it. Otherwise begin() is for values that have all their weight.
  virtual bool is_linear() const noexcept { return true; }
};

/// The one for these options.
std::unique_ptr<BucketTransport> transport_of(const ReducerOptions& options);

}  // namespace tw
