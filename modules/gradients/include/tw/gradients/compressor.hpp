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

/// The sum of a bucket over the ranks, in flight.
struct BucketSum {
  Work work;
  int64_t bytes = 0;                  ///< that this rank contributed to reductions and gatherings
  std::function<void()> finish = {};  ///< what is left to do when `work` is done; called once, in the order of begin() on all ranks, so that it may
                                      ///< call collectives
};

/// Sums buckets over the ranks in fewer bytes than they have, and with an error. See compression.hpp for those that come with the library.
class Compressor {
 public:
  virtual ~Compressor() = default;

  /// One line that differs between compressors that differ; it must be the same on all ranks.
  virtual std::string describe() const = 0;
  /// Called once by each Reducer that uses it, before that Reducer reduces anything. @param device where buckets lie
  /// @throws ContractError for gradients that it cannot compress, by name; when it has something to remember and served another Reducer
  virtual void prepare(const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device) = 0;
  /// Begins to sum bucket number `bucket` over the ranks, in place; the result, after BucketSum::finish, has the same bits on all ranks. Other
  /// buckets may be in flight. Collective. @param values shape [numel of the bucket]
  virtual BucketSum begin(const Communicator& comm, size_t bucket, const at::Tensor& values) = 0;
  /// After BucketSum::finish: no rank used gradient `id` in this step, so its `sum` is not returned, and must not be lost. On all ranks alike.
  /// @param sum what begin() made of the gradient
  virtual void take_back(int64_t /*id*/, const at::Tensor& /*sum*/, int /*ranks*/) {}
  /// Multiplies its residuals by `factor`: the next gradients are of a loss whose scale is larger by that factor. See LossScaler.
  virtual void rescale(double /*factor*/) {}
  /// State that it keeps from step to step; shares its memory. Each gradient's residual is called compression/GRADIENT/residual.
  virtual std::vector<NamedShard> shards() const { return {}; }
};

}  // namespace tw
