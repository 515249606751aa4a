// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <tw/graph/capture.hpp>
#include <vector>

namespace tw::graph {

/// A module's graphs in training and in evaluation mode.
struct ModeGraphs {
  Graph training;
  Graph evaluation;
};

/// Captures `forward`, which calls `module`, in both modes. If `module` is in training mode, its submodules keep their modes for the training graph,
/// so frozen ones stay frozen; otherwise all are set to training. All modes are restored afterwards.
/// @throws Error as capture() does, and if the module caches values computed from its parameters or buffers between calls of train()
ModeGraphs capture_modes(torch::nn::Module& module, const Forward& forward, const std::vector<at::Tensor>& example);

}  // namespace tw::graph
