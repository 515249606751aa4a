// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/diloco.hpp>
#include <tw/train/strategy_options.hpp>

namespace tw::train {

/// What `options` say of DiLoCo; without outer momentum also without Nesterov's.
DiLoCoOptions diloco_options(const StrategyOptions& options);

}  // namespace tw::train
