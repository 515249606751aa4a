// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/data_parallel/diloco.hpp>
#include <tw/train/replica_options.hpp>

namespace tw::train {

/// The DiLoCo settings of `options`; without outer momentum, Nesterov is off too.
DiLoCoOptions diloco_options(const ReplicaOptions& options);

}  // namespace tw::train
