// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// What a checkpoint of a ParallelModel has, but for the optimizer's state.
class ModelState {
 public:
  /// @param of_model the shards of the program's model, from which buffers are taken: before its parameters are sharded, which shards() would gather
  explicit ModelState(std::vector<NamedShard> of_model);

  /// Parameters, buffers and the number of updates; shares memory.
  std::vector<NamedShard> shards(const GradientSums& sums) const;
  /// The same without the number.
  std::vector<NamedShard> tensors(const GradientSums& sums) const;

  /// Of training.
  int64_t updates() const { return *updates_.const_data_ptr<int64_t>(); }
  void count_update() { ++*updates_.mutable_data_ptr<int64_t>(); }

 private:
  std::vector<NamedShard> buffers_;
  at::Tensor updates_;  // a tensor, because checkpoints contain it
};

}  // namespace tw
