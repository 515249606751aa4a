// SPDX-License-Identifier: Apache-2.0
// Captures the graph of a running module.
#pragma once
#include <functional>
#include <tw/graph/graph.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

namespace tw::graph {

using Forward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

/// Captures the graph of `forward` by running it and recording the operators that it calls. Operators called by other operators are not recorded,
/// with two exceptions. A composite operator that draws random numbers (other than dropout itself) is recorded as the operators that it calls. If the
/// module differentiates in its forward pass, this holds for all composite operators.
///
/// `forward` runs with `example`, and with a batch that contains the rows of `example` twice: sizes that differ between these runs depend on the
/// number of rows. `forward` must call the same operators for any number of rows; a module that treats a single row differently is captured for two
/// rows or more (see Graph::min_rows). Replays of the graph are compared with the module: with rotated rows, and with other values in parameters and
/// buffers. Numbers are not compared if the graph draws random ones. Afterwards the example, parameters, buffers and generators have their old
/// values; autograd's version counters of parameters and buffers may have advanced.
///
/// Before the call, set grad mode, training mode and everything else that decides which operators run: a model has one graph for training and one for
/// evaluation. A boolean that the module reads from data is checked at each replay. Tensors may lie on an accelerator, on its current device; the
/// graph is for that kind of device.
///
/// Local: operators that communicate with other ranks, such as those of split layers, do not do so meanwhile (see DryRun). Their results then have
/// other values than in a replay, so booleans that the module reads should not depend on them.
///
/// Tensors may have no memory (LibTorch's meta device), for a module that is larger than a rank's memory. The graph is then for the CPU. Its replays
/// are not compared with the module, and a log message reports this. So capture() does not notice values that are read or written without operators,
/// or constants that are computed from parameters. The module must then not read booleans from such tensors, and the position of the rows in random
/// tensors must follow from sizes alone.
/// @param parameters, buffers all those that `forward` uses; of several names for a tensor, the first counts.
/// @param example the inputs, each [n, ...] with the same n.
/// @throws Error naming the operator, if a number other than a boolean is read from a tensor (control flow may depend on data), or a boolean from
/// a tensor without memory; if a tensor that
/// requires a gradient is not among the parameters, the runs call different operators, a size is not linear in the rows, or random numbers cannot be
/// redrawn by row. Error also if a replay differs, because the module reads or writes values without operators, has custom gradients, or computes
/// constants from its parameters
Graph capture(const Forward& forward, const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
              const std::vector<at::Tensor>& example);

/// Captures one call of `function`, for inputs of exactly these shapes; they need not have batch rows. The first values of the graph are the inputs,
/// followed by the parameters. `function` runs once, and the replay is not verified.
/// @throws Error naming the operator, if numbers are read from tensors or a tensor that requires a gradient is not among the parameters
Graph capture_call(const Forward& function, const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& inputs);

}  // namespace tw::graph
