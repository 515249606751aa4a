// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/data_parallel/gradient_sums.hpp>
#include <tw/tensor/named_shard.hpp>
#include <vector>

namespace tw {

/// The contents of a ParallelModel's checkpoint, except the optimizer's state.
class ModelState {
 public:
  /// @param of_model the shards of the program's model, of which the buffers are used. Get them before parameters are sharded, since shards() would
  /// then gather them
  explicit ModelState(std::vector<NamedShard> of_model);

  /// Parameters, buffers and the number of updates; shares memory.
  std::vector<NamedShard> shards(const GradientSums& sums) const;
  /// The same without the number of updates.
  std::vector<NamedShard> tensors(const GradientSums& sums) const;

  /// The number of updates in training.
  int64_t updates() const { return *updates_.const_data_ptr<int64_t>(); }
  void count_update() { ++*updates_.mutable_data_ptr<int64_t>(); }

 private:
  std::vector<NamedShard> buffers_;
  at::Tensor updates_;  // a tensor, because checkpoints contain it
};

}  // namespace tw
