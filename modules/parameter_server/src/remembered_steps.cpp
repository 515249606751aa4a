// SPDX-License-Identifier: Apache-2.0
#include "remembered_steps.hpp"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <tw/base/contract.hpp>

namespace tw::parameter_server {

// In floating point, because other numbers of workers load the mean.
NamedShard steps_shard(int64_t steps) {
  return whole("steps", at::scalar_tensor(static_cast<double>(steps), at::TensorOptions().dtype(at::kDouble)), ShardKind::counter);
}

int64_t steps_in(const std::vector<NamedShard>& shards) {
  const auto found = std::ranges::find(shards, "steps", &NamedShard::name);
  TW_EXPECTS(found != shards.end(), "the steps of a worker are not among the shards");
  return std::llround(found->tensor.item<double>());
}

}  // namespace tw::parameter_server
