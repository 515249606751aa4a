// SPDX-License-Identifier: Apache-2.0
// Models and objectives that compute under LibTorch's autocast. The trainer does this by itself if Options::precision is set.
#pragma once
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/precision.hpp>

namespace tw::train {

/// Returns `model` with forward(), evaluate() and pass() under autocast for its device: forward pass and loss inside, the backward pass outside, as
/// LibTorch recommends. It has the same tensors. For float32: returns the model unchanged.
/// @throws ContractError naming a trained parameter that is not float32, which autocast would skip; also if LibTorch has no autocast for the device
Model under_autocast(Model model, ComputeType compute);

/// Returns `objective` with its loss computed under autocast for the outputs' device, in float32, and its metrics computed on float32 outputs. For
/// float32: returns the objective unchanged.
Objective under_autocast(Objective objective, ComputeType compute);

}  // namespace tw::train
