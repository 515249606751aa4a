// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/base/contract.hpp>

namespace tw {

/// How the gradients g_r of the ranks r are combined into the reduced gradient g. There is no default: the right choice depends on the loss.
/// expect_chosen() detects options that leave it unset (`{}`).
enum class Reduction {
  sum = 1,          ///< g = sum of g_r: the loss is a sum over samples
  mean,             ///< g = (1 / p) * sum of g_r: the loss is a mean, and all p ranks have the same number of samples
  sample_weighted,  ///< g = sum of (n_r / n) * g_r, n = sum of n_r: the loss is a mean over the n_r samples of a rank; n_r may be 0
};

/// "sum", "mean" or "sample_weighted".
constexpr const char* name_of(Reduction reduction) noexcept {
  return reduction == Reduction::sum ? "sum" : reduction == Reduction::mean ? "mean" : "sample_weighted";
}

/// @throws ContractError if no reduction was chosen.
inline void expect_chosen(Reduction reduction) {
  const bool chosen = reduction == Reduction::sum || reduction == Reduction::mean || reduction == Reduction::sample_weighted;
  TW_EXPECTS(chosen, "the reduction must be chosen, such as {.reduction = Reduction::mean}: sum, mean or sample_weighted");
}

}  // namespace tw
