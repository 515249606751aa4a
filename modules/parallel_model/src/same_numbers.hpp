// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/mpi/communicator.hpp>
#include <vector>

namespace tw {

/// Runs a graph whole on every rank, and by parts together, forward and backward, with a few rows of the example. Tensors keep their values.
/// Collective over `holders`, the ranks along `tensor`.
/// @param parts what ranks compute together. @param tensors, slices parameters and buffers by name; a slice is a part of its parameter
/// @throws Error on every rank, naming the output or the gradient that differs by more than rounding
void expect_same_numbers(const Communicator& holders, const graph::Graph& whole, const graph::Graph& parts,
                         const std::map<std::string, at::Tensor>& tensors, const std::map<std::string, at::Tensor>& slices,
                         const std::vector<at::Tensor>& example);

}  // namespace tw
