// SPDX-License-Identifier: Apache-2.0
// How networks with unequal numbers of layers, split over the same ranks in different places, give each other values of their layers.
#pragma once
#include <string>
#include <tw/layer_training/nested_iteration.hpp>

#include "row_exchange.hpp"

namespace tw::layer_training {

/// Whether `name` is of an ODE block's parameter or buffer, or of what an optimizer remembers of one, such as "optimizer/1.weight/exp_avg".
bool is_of_layers(const layer_parallel::LayerParallel& net, const std::string& name);

/// Layers of `fine` for one of `coarse`; 1 where both are the same size. @param of_layers whether rows are layers
/// @throws ContractError where `fine` is no refinement of `coarse`
int64_t layers_for_one(const RowPart& fine, const RowPart& coarse, bool of_layers);

/// The rows of `coarse` that refined() needs for those of `fine`.
RowPart coarse_rows(const RowPart& fine, const RowPart& coarse, Refinement refinement);
/// The rows of `fine` that stand for one of `coarse` each, one group after the other.
RowPart fine_rows(const RowPart& coarse, const RowPart& fine);

/// What the layers of `fine` begin with. @param rows those of coarse_rows(), which `coarse` describes
at::Tensor refined(const at::Tensor& rows, const RowPart& coarse, const RowPart& fine, Refinement refinement);

}  // namespace tw::layer_training
