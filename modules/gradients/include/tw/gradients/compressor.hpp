// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tw/gradients/bucket_plan.hpp>
#include <tw/mpi/communicator.hpp>
#include <tw/mpi/work.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// A reduction in flight: the sum of a bucket over the ranks.
struct BucketSum {
  Work work;
  int64_t bytes = 0;  ///< bytes that this rank contributed to reductions and all-gathers
  std::function<void()> finish =
      {};  ///< completes the sum once `work` is done. Called once, on all ranks in the order of the begin() calls, so it may call collectives
};

/// Sums buckets over the ranks with lossy compression. The library's own compressors are in compression.hpp.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// One line that identifies the compressor and its options; must be the same on all ranks.
  virtual std::string describe() const = 0;
  /// Called once by each Reducer that uses this compressor, before the Reducer reduces anything. @param device the device of the buckets
  /// @throws ContractError naming a gradient that this compressor cannot compress; also if the compressor has state and has served another Reducer
  virtual void prepare(const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device) = 0;
  /// Begins to sum bucket number `bucket` over the ranks, in place; the result, after BucketSum::finish, has the same bits on all ranks. Other
  /// buckets may be in flight. Collective. @param values shape [numel of the bucket]
  virtual BucketSum begin(const Communicator& comm, size_t bucket, const at::Tensor& values) = 0;
  /// Adds `sum`, the reduced gradient `id`, back to the residuals of all ranks. Called on all ranks, after BucketSum::finish, if no rank used the
  /// parameter in this step: nobody gets `sum`, and the earlier residuals in it would be lost.
  /// @param sum the result of begin() for this gradient @param ranks each rank adds 1 / `ranks` of `sum`
  virtual void take_back(int64_t /*id*/, const at::Tensor& /*sum*/, int /*ranks*/) {}
  /// Multiplies the residuals by `factor`, by which the scale of the loss was multiplied. See LossScaler.
  virtual void rescale(double /*factor*/) {}
  /// State kept from step to step; shares memory. Each gradient's residual is called compression/GRADIENT/residual.
  virtual std::vector<NamedShard> shards() const { return {}; }
};

}  // namespace tw
