// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tw {

/// What a piece of state is for.
enum class ShardKind { parameter, buffer, optimizer, counter };

/// What becomes of a piece of state where the ranks that load it are not those that saved it.
enum class OnReshard {
  shard,      ///< the ranks' slices make up one tensor; each rank gets the slice it asks for. Equal slices on several ranks count once
  replicate,  ///< every rank holds the whole, with the same values
  sum,        ///< each rank holds a whole tensor of its own, of which only the sum matters: rank r of n gets the sum over the old ranks r, r + n, ...
  mean,       ///< each rank holds a whole tensor of its own; every rank gets the mean over the old ranks
  drop,       ///< each rank holds a whole tensor of its own, which means nothing to others: what the loading rank has stays
};

/// "parameter", "buffer", "optimizer", "counter".
std::string name_of(ShardKind kind);
/// "shard", "replicate", "sum", "mean", "drop".
std::string name_of(OnReshard on_reshard);

}  // namespace tw
