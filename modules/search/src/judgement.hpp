// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/search/trial.hpp>

#include "evaluator.hpp"

namespace tw::search {

/// Sets the state and the losses of an evaluation that returned `outcome`, complete or pruned. If the number of values is wrong, or one is not
/// finite, the evaluation has failed, with a message; if constraints are violated, it is infeasible.
/// @param objectives their number; 0: any number of at least one
void judge(const Outcome& outcome, size_t objectives, Evaluation& evaluation);

}  // namespace tw::search
