// SPDX-License-Identifier: Apache-2.0
// Finds what operators do not show, by comparing a graph's replay with the module.
#pragma once
#include "module_run.hpp"

namespace tw::graph {

/// Rejects a graph whose numbers differ from the module's: the module reads or writes values outside its operators. Skips graphs that draw.
/// @throws Error describing the difference
void expect_same_numbers(const Graph& graph, const Subject& module, const std::vector<at::Tensor>& inputs);

/// The same, and rejects a graph whose gradients are not the module's, such as user-defined ones.
/// @param run the captured run, with autograd's records
/// @throws Error describing the difference
void verify_replay(const Graph& graph, const Run& run, const Subject& module, const std::vector<at::Tensor>& inputs);

/// Rejects a run whose gradients no graph can hold, such as user-defined ones. @throws Error naming the function
void expect_supported_gradients(const Run& run);

/// Rejects a graph that does not follow changed values of the module's tensors (OtherNumbers): the module caches values that it computed from them.
/// @throws Error describing the difference
void expect_follows_tensors(const Graph& graph, const Subject& module, const std::vector<at::Tensor>& inputs);

}  // namespace tw::graph
