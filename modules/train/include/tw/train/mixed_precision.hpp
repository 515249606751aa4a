// SPDX-License-Identifier: Apache-2.0
// Models and objectives that compute under LibTorch's autocast. The trainer does this by itself, by Options::precision.
#pragma once
#include <tw/train/model.hpp>
#include <tw/train/objective.hpp>
#include <tw/train/precision.hpp>

namespace tw::train {

/// `model`, whose forward() and pass() run under autocast for the device that it lies on: forward pass and loss inside, as LibTorch wants it, the
/// backward pass outside. Its tensors are the same. Of float32: the model as it is.
/// @throws ContractError, naming it, where a trained parameter is not float32, which autocast would pass over, and where LibTorch knows no autocast
/// for the device
Model under_autocast(Model model, ComputeType compute);

/// `objective` with its loss computed under autocast for the device of the outputs, in float32, and its metrics computed on float32 outputs. For
/// float32: the objective as it is.
Objective under_autocast(Objective objective, ComputeType compute);

}  // namespace tw::train
