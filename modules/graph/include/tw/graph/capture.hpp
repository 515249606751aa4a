// SPDX-License-Identifier: Apache-2.0
// From a running module to a graph.
#pragma once
#include <functional>
#include <tw/graph/graph.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::graph {

using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// What `forward` does, found by running it and recording the operators that it calls, the outermost only, but for operators that draw random numbers
/// and are made of others; of a module that differentiates in its forward pass, all that are made of others. It runs with the rows of `example` and
/// with these repeated once: what differs depends on the rows. With a single row, or with more rows where the module does not take one or does
/// something else then (see Graph::min_rows), it must do the same. So must a replay with the rows rotated, and with other numbers in parameters and
/// buffers. The example, parameters, buffers and the generator are afterwards what they were; to autograd, parameters have changed there and back.
///
/// Autograd, training mode and whatever else decides which operators are called are those of the caller: a model has one graph for training and one
/// for evaluation. An answer that is true or false, and depends on data, is checked at each replay.
/// Tensors may lie on an accelerator, all of them on the current one; the graph is for that kind.
/// @param parameters, buffers all that forward uses; of a tensor that has several names, the first one counts. @param example the inputs, each
/// [n, ...] with n the same for all.
/// @throws Error naming the operator: where numbers are read from tensors (the flow may depend on data), a tensor that requires a gradient belongs to
/// none of the parameters, the runs call different operators, a size is not linear in the rows, or random numbers cannot be drawn again by row; or
/// describing what a replay does not show: values read or written past the operators, gradients that are not theirs, constants that the module
/// computes from its parameters
Graph capture(const Forward& forward, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
              const std::vector<at::Tensor>& example);

/// What `function` does in one call, for inputs of these shapes alone, which need no rows. Values 0, 1, ... of the graph are the inputs and then the
/// parameters. It runs once, and nobody compares it with its replay.
/// @throws Error naming the operator, where numbers are read from tensors or a tensor that requires a gradient belongs to none of the parameters
Graph capture_call(const Forward& function, const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& inputs);

}  // namespace tw::graph
