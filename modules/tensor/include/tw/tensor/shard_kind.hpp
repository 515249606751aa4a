// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tw {

/// What a piece of state is for.
enum class ShardKind { parameter, buffer, optimizer, counter };

/// How a piece of state is restored on a different set of ranks. On the same ranks with the same slices, each rank gets its own values back;
/// for shard and replicate, only if all copies of an element were equal.
enum class OnReshard {
  shard,      ///< the ranks' slices make up one tensor; each rank gets the slice it asks for. A slice that several ranks hold counts once
  replicate,  ///< every rank holds the whole tensor, with the same values
  sum,        ///< each rank holds its own whole tensor; only their sum matters: rank r of n new ranks gets the sum over the old ranks r, r + n, ...
  mean,       ///< each rank holds its own values, of the whole tensor or a slice; each element becomes its mean over the old ranks that hold it
  drop,       ///< each rank holds its own whole tensor, of no use to other ranks: loading keeps the current value
};

/// "parameter", "buffer", "optimizer", "counter".
std::string name_of(ShardKind kind);
/// "shard", "replicate", "sum", "mean", "drop".
std::string name_of(OnReshard on_reshard);

}  // namespace tw
