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

/// How a bucket is summed over the ranks, and which ranks receive the sum.
class BucketTransport {
 public:
  virtual ~BucketTransport() = default;

  /// Collective; in the same order on all ranks. @param values the whole bucket. @param share this rank's share of the sum, if each has its own
  virtual BucketSum begin(const Communicator& comm, size_t index, const Bucket& bucket, const at::Tensor& values, const at::Tensor& share) = 0;
  /// Whether a factor may be applied after the sum. Otherwise values passed to begin() must be fully weighted.
  virtual bool is_linear() const noexcept { return true; }
};

/// The transport for these options.
std::unique_ptr<BucketTransport> transport_of(const ReducerOptions& options);

}  // namespace tw
