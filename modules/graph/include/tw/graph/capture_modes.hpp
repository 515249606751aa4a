// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/nn/module.h>

#include <tw/graph/capture.hpp>
#include <vector>

namespace tw::graph {

/// What a module does in training and in evaluation.
struct ModeGraphs {
  Graph training;
  Graph evaluation;
};

/// Captures `forward`, which calls `module`, in both modes. Submodules have in training the mode that they have now, so that frozen ones stay so;
/// modes are afterwards what they were.
/// @throws Error as capture(); and where the module keeps, from one train() to the next, what it has made of its parameters or buffers
ModeGraphs capture_modes(torch::nn::Module& module, const Forward& forward, const std::vector<at::Tensor>& example);

}  // namespace tw::graph
