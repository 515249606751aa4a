// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/graph/graph.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::graph {

/// Finds for each operator that draws random numbers where the rows lie in its result, so that a row gets the same numbers however a batch is
/// divided. If sizes are ambiguous, as for rows times heads, runs the pass again with the rows of `example` rotated and looks for what moves. If that
/// is inconclusive, as after a ReLU that returns zeros, tries other numbers for the example and the parameters.
/// @param has_values false: only sizes count. @throws Error naming an operator for which all fail
void place_rows(Graph& graph, const std::vector<at::Tensor>& example, const std::vector<NamedTensor>& parameters,
                const std::vector<NamedTensor>& buffers, bool has_values);

/// The last row first.
std::vector<at::Tensor> rotated(const std::vector<at::Tensor>& rows);

}  // namespace tw::graph
