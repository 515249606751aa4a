// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>

namespace tw::train {

/// Which state is divided among the ranks along the mesh axis `shard`.
enum class Sharded {
  optimizer,   ///< the optimizer's state: each rank updates its share of the parameters (ShardedOptimizer; ZeRO 1)
  gradients,   ///< the optimizer's state and gradients (ZeRO 2)
  parameters,  ///< the optimizer's state, gradients and parameters (FullySharded; ZeRO 3)
};

/// Options for a mesh with an axis `shard`; without that axis they have no effect.
struct ShardOptions {
  Sharded what = Sharded::parameters;
  bool one_copy_per_node = false;          ///< whether all ranks of a node share one copy of the parameters
  int64_t unit_bytes = int64_t{25} << 20;  ///< only if `what` is Sharded::parameters; see FullyShardedOptions::unit_bytes
  int prefetch_units = 0;                  ///< only if `what` is Sharded::parameters; see FullyShardedOptions::prefetch_units
  int64_t resident_bytes = 0;              ///< only if `what` is Sharded::parameters; see FullyShardedOptions::resident_bytes
};
void visit(ShardOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
