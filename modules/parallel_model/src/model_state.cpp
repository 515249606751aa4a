// SPDX-License-Identifier: Apache-2.0
#include "model_state.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>

namespace tw {

// Drops the counters of pipelines and of layers in parallel, since this class counts updates for all of them.
ModelState::ModelState(std::vector<NamedShard> of_model) : buffers_(std::move(of_model)), updates_(at::zeros({}, at::kLong)) {
  std::erase_if(buffers_, [](const NamedShard& shard) { return shard.kind != ShardKind::buffer; });
}

std::vector<NamedShard> ModelState::shards(const GradientSums& sums) const {
  std::vector<NamedShard> all = tensors(sums);
  all.push_back(whole("parallel_model/updates", updates_, ShardKind::counter));
  return all;
}

std::vector<NamedShard> ModelState::tensors(const GradientSums& sums) const {
  std::vector<NamedShard> all = sums.parameters();
  all.insert(all.end(), buffers_.begin(), buffers_.end());
  return all;
}

}  // namespace tw
