// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/comm/agreement.hpp>
#include <tw/data_parallel/gradient_sums.hpp>

namespace tw {

/// As ModelTensors::expect_replicable(), on all ranks that hold the model together.
inline void expect_replicable(const SumRanks& ranks, const ModelTensors& tensors) {
  if (ranks.model == nullptr) return tensors.expect_replicable();
  on_all_ranks(*ranks.model, "dividing a model", [&] { tensors.expect_replicable(); });
}

}  // namespace tw
