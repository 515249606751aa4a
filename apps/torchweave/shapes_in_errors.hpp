// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <tw/data/dataset.hpp>

#include "train_config.hpp"

namespace tw::tool {

/// Runs `call`, which trains. An exception of LibTorch, for example for shapes that do not fit, becomes an Error that names model and data by their
/// keys and the shapes of a sample.
void with_shapes_in_errors(const TrainConfig& config, const Dataset& train_set, const std::function<void()>& call);

}  // namespace tw::tool
