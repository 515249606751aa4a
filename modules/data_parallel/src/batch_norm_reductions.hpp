// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/gradients/reduction.hpp>

namespace tw {

/// @throws ContractError naming a SyncBatchNorm of `module` that was not made for this reduction of its gradients. Those of sum and mean are the
/// same.
void expect_batch_norms_for(const torch::nn::Module& module, Reduction reduction);

}  // namespace tw
