// SPDX-License-Identifier: Apache-2.0
// The quality of a Pareto front as one number. Ref: While, Bradstreet & Barone 2012, "A fast way of calculating exact hypervolumes".
#pragma once
#include <span>
#include <tw/evolution/pareto.hpp>
#include <vector>

namespace tw::search {

/// The volume that `points` dominate, bounded by `reference`; larger is better. Exact for any number of objectives.
/// @param points in any order, may include dominated ones; a point that is not better than the reference in every objective adds nothing
/// @param reference has the same number of objectives as each point, at least 1. @throws ContractError otherwise
/// Cost for n points: O(n log n) with two objectives; with more, up to exponential in their number: 1 ms for 200 points with 3 objectives, 0.1 s for
/// 100 with 6
double hypervolume(std::span<const ObjectiveView> points, ObjectiveView reference);

/// The volume that `point` dominates and `others` do not, bounded by `reference`. @throws ContractError as hypervolume() does
double exclusive_hypervolume(ObjectiveView point, std::span<const ObjectiveView> others, ObjectiveView reference);

}  // namespace tw::search
