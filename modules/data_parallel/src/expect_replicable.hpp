// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/data_parallel/gradient_sums.hpp>

namespace tw {

/// Calls `check`; if it throws on one of the ranks that hold the model together, it throws on all of them.
template <class Check>
void on_ranks_of_model(const SumRanks& ranks, const Check& check) {
  if (ranks.model == nullptr) return check();
  on_all_ranks(*ranks.model, "dividing a model", check);
}

/// As ModelTensors::expect_replicable(), on all ranks that hold the model together.
inline void expect_replicable(const SumRanks& ranks, const ModelTensors& tensors) {
  on_ranks_of_model(ranks, [&] { tensors.expect_replicable(); });
}

/// Refuses sparse gradients, of which ranks cannot have slices.
inline void expect_dense(const SumRanks& ranks, const ModelTensors& tensors) {
  on_ranks_of_model(ranks, [&] {
    TW_EXPECTS(tensors.sparse.empty(), "'", tensors.sparse.front(),
               "' has sparse gradients, which ranks along `shard` cannot divide: make its embedding with sparse(false), or leave out the axis");
  });
}

}  // namespace tw
