// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <tw/base/option.hpp>

namespace tw::train {

/// What of the model is divided among the ranks along `shard`.
enum class Sharded {
  optimizer,   ///< the optimizer's state: each rank updates its share of the parameters (ShardedOptimizer; ZeRO 1)
  gradients,   ///< gradients, too (ZeRO 2)
  parameters,  ///< parameters, too (FullySharded; ZeRO 3)
};

/// Of a mesh with an axis `shard`; without it, none has an effect.
struct ShardOptions {
  Sharded what = Sharded::parameters;
  bool one_copy_per_node = false;          ///< of the parameters, for all ranks of a node
  int64_t unit_bytes = int64_t{25} << 20;  ///< of `parameters`, see FullyShardedOptions
  int prefetch_units = 0;                  ///< likewise
  int64_t resident_bytes = 0;              ///< likewise
};
void visit(ShardOptions& options, OptionVisitor& visitor);

}  // namespace tw::train
