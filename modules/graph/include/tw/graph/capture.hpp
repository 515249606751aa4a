// SPDX-License-Identifier: Apache-2.0
// Captures the graph of a running module.
#pragma once
#include <functional>
#include <tw/graph/graph.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::graph {

using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// Captures the graph of `forward` by running it and recording the operators that it calls. Only outermost operators are recorded, except that
/// composite ones that draw random numbers are recorded by their parts; so are all composite ones if the module differentiates in its forward pass.
/// `forward` runs with the rows of `example`, and with the same rows twice: sizes that differ between these runs depend on the rows. It must call the
/// same operators for any number of rows; a module that treats a single row differently is captured for two rows or more (see Graph::min_rows).
/// Replays are verified with rotated rows, and with other values in parameters and buffers. Afterwards the example, parameters, buffers and
/// generators have their old values; autograd's version counters of the parameters have advanced.
///
/// Set autograd, training mode and all other settings that decide which operators run before the call: a model has one graph for training and one for
/// evaluation. A boolean that the module reads from data is checked at each replay. Tensors may lie on an accelerator, which must be the current one;
/// the graph is for that kind of device.
///
/// Tensors may have no memory (LibTorch's meta device), for a module that is larger than a rank's memory. The graph is then for the CPU, and its
/// replays are not compared with the module, which is logged: capture() does not notice values that are read or written without operators, or
/// constants that are computed from parameters. The position of the rows in random tensors must then follow from sizes alone.
/// @param parameters, buffers all those that `forward` uses; of several names for a tensor, the first counts. @param example the inputs, each
/// [n, ...] with the same n.
/// @throws Error naming the operator: if numbers are read from tensors (control flow may depend on data), a tensor that requires a gradient is not
/// among the parameters, the runs call different operators, a size is not linear in the rows, or random numbers cannot be redrawn by row. Also if a
/// replay differs: the module reads or writes values without operators, has custom gradients, or computes constants from its parameters
Graph capture(const Forward& forward, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
              const std::vector<at::Tensor>& example);

/// Captures one call of `function`, for inputs of exactly these shapes, which need not have batch rows. Values 0, 1, ... of the graph are the inputs
/// and then the parameters. `function` runs once, and the replay is not verified.
/// @throws Error naming the operator, if numbers are read from tensors or a tensor that requires a gradient is not among the parameters
Graph capture_call(const Forward& function, const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& inputs);

}  // namespace tw::graph
