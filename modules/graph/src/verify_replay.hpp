// SPDX-License-Identifier: Apache-2.0
// What operators do not show, found by comparing a graph's replay with the module.
#pragma once
#include "module_run.hpp"

namespace tw::graph {

/// Refuses a graph that gives other numbers than the module, which reads or writes values past its operators. Of a graph that draws, nothing is
/// compared. @throws Error saying what differs
void expect_same_numbers(const Graph& graph, const Subject& module, const std::vector<at::Tensor>& inputs);

/// And one whose gradients are not the module's, such as those of the user's own. @param run the one that was captured, with autograd's records
/// @throws Error saying what differs
void verify_replay(const Graph& graph, const Run& run, const Subject& module, const std::vector<at::Tensor>& inputs);

/// Refuses a graph that does not follow the module's tensors, which hold OtherNumbers: the module keeps what it has made of them.
/// @throws Error saying what differs
void expect_follows_tensors(const Graph& graph, const Subject& module, const std::vector<at::Tensor>& inputs);

}  // namespace tw::graph
