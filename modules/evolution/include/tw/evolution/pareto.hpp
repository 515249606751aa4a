// SPDX-License-Identifier: Apache-2.0
// Comparison of points in several objectives at once; smaller is better in each.
#pragma once
#include <cstddef>
#include <span>
#include <tw/evolution/individual.hpp>
#include <vector>

namespace tw::search {

/// The objectives of one individual.
using ObjectiveView = std::span<const double>;

/// Whether `a` is no worse than `b` in every objective, and better in at least one. @param b the same size as `a`
bool dominates(ObjectiveView a, ObjectiveView b);

/// Whether individual `a` dominates `b`. An individual without violation dominates one that violates constraints, and a smaller violation dominates a
/// larger one. If neither violates constraints, the objectives decide. The state is ignored: a failed individual, whose violation is 0, is compared
/// by its objectives. Ref: Deb, Pratap, Agarwal & Meyarivan 2002, definition 1.
bool dominates(const Individual& a, const Individual& b);

/// The front of each individual: 0 if no other individual dominates it, 1 if only individuals of front 0 do, and so on.
/// Cost for n individuals: O(n log n) with one or two objectives; at most O(M * n^2) with M > 2 objectives.
/// Ref: Zhang, Tian, Cheng & Jin 2015, the variant with binary search.
std::vector<size_t> front_numbers(std::span<const Individual* const> individuals);

/// The crowding distance of each point of one front. For each objective, the points are sorted by its value; points with equal values stay in their
/// order. The first and the last point get infinity. Each other point gets the distance between the values of its two neighbours, divided by the
/// range of all values, or 0 if this range is 0 or infinite. A point's crowding distance is its sum over all objectives. Ref: Deb et al. 2002,
/// section III B. Cost for n points with M objectives: O(M * n log n). @param points all with the same number of objectives
std::vector<double> crowding_distances(std::span<const ObjectiveView> points);

/// The Pareto front: individuals with has_comparable_loss() that no other such individual dominates, in lexicographic order of their objectives. If
/// several individuals are equal in all objectives, only the one with the smallest trial number is included. The pointers point into `individuals`.
std::vector<const Individual*> front_of(std::span<const Individual> individuals);

}  // namespace tw::search
