// SPDX-License-Identifier: Apache-2.0
// Models and objectives that compute under LibTorch's autocast. The trainer makes them itself, according to Options::precision.
#pragma once
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/precision.hpp>

namespace tw::train {

/// Returns a model with the same tensors, whose forward(), evaluate() and pass() run under autocast for its device. As LibTorch recommends, autocast
/// covers the forward pass and the loss, but not the backward pass. For float32: returns `model` unchanged.
/// @throws ContractError if a trained parameter, which the message names, is not float32, because autocast would skip it; also if LibTorch has no
/// autocast for the device
Model under_autocast(Model model, ComputeType compute);

/// Returns an objective whose loss is computed under autocast for the outputs' device and converted to float32, and whose metrics are computed from
/// float32 outputs. For float32: returns `objective` unchanged.
Objective under_autocast(Objective objective, ComputeType compute);

}  // namespace tw::train
