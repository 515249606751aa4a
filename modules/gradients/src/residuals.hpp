// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/gradients/bucket_plan.hpp>
#include <tw/tensor/flat_buffer.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// What compression left behind, bucket by bucket, to be added to the next step's gradients.
class Residuals {
 public:
  /// Makes them, zeroed, for the one Reducer that they serve. @param compression for messages.
  /// @throws ContractError when they are made already, since two Reducers would mix what they left behind; as expect_compressible().
  void prepare(const char* compression, const BucketPlan& plan, const std::vector<TensorSpec>& gradients, c10::Device device);

  /// Shape [numel of the bucket].
  const at::Tensor& bucket(size_t bucket) const { return buckets_.at(bucket).storage(); }
  /// Keeps a sum over the ranks that is not handed out: each rank an equal part of it.
  void take_back(int64_t id, const at::Tensor& sum, int ranks) const;
  void rescale(double factor) const;
  /// Over ranks they add up, so that other numbers of ranks lose nothing of them.
  std::vector<NamedShard> shards() const;

 private:
  bool prepared_ = false;
  std::vector<FlatBuffer> buckets_;
  std::vector<at::Tensor> views_;
  std::vector<std::string> names_;
};

/// @throws ContractError for gradients that are not float32 or float64, by name.
void expect_compressible(const char* compression, const std::vector<TensorSpec>& gradients);

}  // namespace tw
