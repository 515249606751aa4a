// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/fwd.hpp>
#include <tw/gradients/reduction.hpp>

namespace tw {

/// @throws ContractError naming a SyncBatchNorm of `module` made for another reduction of its gradients; Reduction::sum and mean are interchangeable.
void expect_batch_norms_for(const torch::nn::Module& module, Reduction reduction);

}  // namespace tw
