// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/gradients/reducer.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// Runs one step of `reducer` on the current gradients of `parameters`; a missing gradient counts as zero. Collective.
void reduce_gradients(Reducer& reducer, const std::vector<NamedTensor>& parameters, int64_t samples);

}  // namespace tw
