// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/search/trial.hpp>

#include "evaluator.hpp"

namespace tw::search {

/// What an outcome makes of an evaluation that nothing stopped, or that was pruned: of the wrong number of values, or not finite, and it has failed,
/// with a message; violating constraints, and it is infeasible.
/// @param objectives their number; 0: any, as long as there is one
void judge(const Outcome& outcome, size_t objectives, Evaluation& evaluation);

}  // namespace tw::search
