// SPDX-License-Identifier: Apache-2.0
// How good a front is, as one number. Ref: While, Bradstreet & Barone 2012, "A fast way of calculating exact hypervolumes".
#pragma once
#include <span>
#include <tw/evolution/pareto.hpp>
#include <vector>

namespace tw::search {

/// The volume of all that is dominated by one of `points` and dominates `reference`: larger is better. Exact, in any number of objectives.
/// @param points in any order, dominated ones too; what is not better than the reference in each objective adds nothing
/// @param reference as many numbers as each point has, 1 at least. @throws ContractError otherwise
/// Cost: O(n log n) in two objectives; else exponential in their number in the worst case: 1 ms for 200 points of 3, 0.1 s for 100 of 6
double hypervolume(std::span<const ObjectiveView> points, ObjectiveView reference);

/// What `point` adds to the volume of `others`.
double exclusive_hypervolume(ObjectiveView point, std::span<const ObjectiveView> others, ObjectiveView reference);

}  // namespace tw::search
