// SPDX-License-Identifier: Apache-2.0
#include "progress_shard.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <tw/base/contract.hpp>

namespace tw::train {
namespace {

const std::string shard_name = "trainer/progress";

}  // namespace

NamedShard as_shard(const Progress& progress) {
  const std::vector<double> numbers{progress.best, static_cast<double>(progress.best_epoch), static_cast<double>(progress.waited),
                                    static_cast<double>(progress.skipped)};
  return whole(shard_name, at::tensor(numbers, at::kDouble), ShardKind::counter);
}

void take_shard(Progress& progress, const std::vector<NamedShard>& shards) {
  const auto found = std::ranges::find(shards, shard_name, &NamedShard::name);
  TW_EXPECTS(found != shards.end(), shard_name, " must be one of the shards");
  const auto number = [&](int64_t i) { return found->tensor[i].item<double>(); };
  progress.best = number(0);
  progress.best_epoch = static_cast<int64_t>(number(1));
  progress.waited = static_cast<int64_t>(number(2));
  progress.skipped = static_cast<int64_t>(number(3));
}

}  // namespace tw::train
