// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/gradients/bucket_plan.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// Compression errors, by bucket, to be added to the next step's gradients.
class Residuals {
 public:
  /// Allocates them, zeroed, for one Reducer. @param compression for messages.
  /// @throws ContractError if already allocated, since two Reducers would mix their residuals, or like expect_compressible().
  void prepare(const char* compression, const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device);

  /// Shape [numel of the bucket].
  const at::Tensor& bucket(size_t bucket) const { return buckets_.at(bucket).storage(); }
  /// Keeps a sum over the ranks that is not handed out: an equal part on each rank.
  void take_back(int64_t id, const at::Tensor& sum, int ranks) const;
  void rescale(double factor) const;
  /// Summed over ranks on resharding, so nothing is lost if the number of ranks changes.
  std::vector<NamedShard> shards() const;

 private:
  bool prepared_ = false;
  std::vector<FlatBuffer> buckets_;
  std::vector<at::Tensor> views_;
  std::vector<std::string> names_;
};

/// @throws ContractError naming a gradient that is not float32 or float64.
void expect_compressible(const char* compression, const std::vector<TensorSpec>& gradients);

}  // namespace tw
