// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/diloco.hpp>
#include <tw/train/strategy_options.hpp>

namespace tw::train {

/// The DiLoCo settings of `options`; without outer momentum, Nesterov is off too.
DiLoCoOptions diloco_options(const StrategyOptions& options);

}  // namespace tw::train
