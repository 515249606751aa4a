// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw {

/// How the gradients of the ranks become one. There is no default anywhere: the choice belongs to the loss.
enum class Reduction {
  sum,              ///< g = sum of g_r: the loss is a sum over samples
  mean,             ///< g = (1/p) sum of g_r: the loss is a mean, and all p ranks have equally many samples
  sample_weighted,  ///< g = sum of (n_r / n) g_r, n = sum of n_r: the loss is a mean over the n_r samples of a rank; n_r may be 0
};

}  // namespace tw
