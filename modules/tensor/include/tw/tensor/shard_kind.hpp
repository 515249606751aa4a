// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace tw {

/// What a piece of state is for.
enum class ShardKind { parameter, buffer, optimizer, counter };

/// How a piece of state is restored on a different set of ranks.
enum class OnReshard {
  shard,      ///< the ranks' slices make up one tensor; each rank gets the slice it asks for. Equal slices on several ranks count once
  replicate,  ///< every rank holds the whole tensor, with the same values
  sum,        ///< each rank holds its own whole tensor, and only their sum matters: rank r of n gets the sum over the old ranks r, r + n, ...
  mean,  ///< each rank holds its own values, of the whole tensor or a slice; every rank gets the mean over the old ranks that hold these elements
  drop,  ///< each rank holds its own whole tensor, useless to others: loading keeps the current value
};

/// "parameter", "buffer", "optimizer", "counter".
std::string name_of(ShardKind kind);
/// "shard", "replicate", "sum", "mean", "drop".
std::string name_of(OnReshard on_reshard);

}  // namespace tw
