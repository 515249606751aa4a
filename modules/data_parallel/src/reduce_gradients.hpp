// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/gradients/reducer.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw {

/// One whole step of `reducer` on the gradients that `parameters` have now; a missing one counts as zero. Collective.
void reduce_gradients(Reducer& reducer, const std::vector<NamedTensor>& parameters, int64_t samples);

}  // namespace tw
