// SPDX-License-Identifier: Apache-2.0
// Transfers values of layers between networks of different depth that are split over the same ranks at different layers.
#pragma once
#include <string>
#include <tw/layer_training/nested_iteration.hpp>

#include "row_exchange.hpp"

namespace tw::layer_training {

/// Whether `name` is a parameter or buffer of an ODE block, or the optimizer state of such a parameter, e.g. "optimizer/1.weight/exp_avg".
bool is_of_layers(const layer_parallel::LayerParallel& net, const std::string& name);

/// Number of layers of `fine` for one layer of `coarse`; 1 if both have the same size. @param of_layers whether rows are layers
/// @throws ContractError if `fine` is not a refinement of `coarse`
int64_t layers_for_one(const RowPart& fine, const RowPart& coarse, bool of_layers);

/// The rows of `coarse` that refined() needs to compute `fine`.
RowPart coarse_rows(const RowPart& fine, const RowPart& coarse, Refinement refinement);
/// The rows of `fine` that correspond to the rows of `coarse`, one group after the other.
RowPart fine_rows(const RowPart& coarse, const RowPart& fine);

/// Initial values of the layers of `fine`. @param rows the rows of coarse_rows(), which `coarse` describes
at::Tensor refined(const at::Tensor& rows, const RowPart& coarse, const RowPart& fine, Refinement refinement);

}  // namespace tw::layer_training
