// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <tw/graph/graph.hpp>
#include <tw/pipeline/profile.hpp>
#include <vector>

namespace tw::pipeline {

/// What the units of a graph cost on this machine: its operators are graph::units_of(graph), in their order. Each is run alone, forward and backward,
/// on the rows of `example` and on half of them, whose times make a line; of units that are alike, one. The bytes that autograd keeps are counted in
/// one pass through the whole graph, at who allocated them. Local; takes some forty passes of the model if no two units are alike.
/// @param bind gives a parameter's or buffer's tensor by its name; running means are left changed. @param repetitions of which the median counts
Profile measured_profile(const graph::Graph& graph, const std::function<at::Tensor(const std::string& name)>& bind,
                         const std::vector<at::Tensor>& example, int repetitions = 5);

}  // namespace tw::pipeline
