// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/graph/graph.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::graph {

/// Tells each operator that draws random numbers where the rows lie in what it draws, so that a row has the same numbers however a batch is divided.
/// Where sizes leave a choice, as for rows times heads, the pass is repeated with the rows of `example` rotated, and what goes along decides;
/// where nothing does, as after a ReLU that gives zeros, with other numbers for the example and the parameters.
/// @throws Error naming the operator where none does
void place_rows(Graph& graph, const std::vector<at::Tensor>& example, const std::vector<NamedTensor>& parameters,
                const std::vector<NamedTensor>& buffers);

/// The last row first.
std::vector<at::Tensor> rotated(const std::vector<at::Tensor>& rows);

}  // namespace tw::graph
