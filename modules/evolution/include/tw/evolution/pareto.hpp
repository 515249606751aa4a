// SPDX-License-Identifier: Apache-2.0
// Points that are compared in several objectives at once, smaller being better in each.
#pragma once
#include <cstddef>
#include <span>
#include <tw/evolution/individual.hpp>
#include <vector>

namespace tw::search {

/// The objectives of one individual.
using ObjectiveView = std::span<const double>;

/// Whether `a` is nowhere worse than `b`, and better somewhere. @param b as many numbers as `a`
bool dominates(ObjectiveView a, ObjectiveView b);

/// The same of individuals that count or violate constraints: what counts dominates what violates, less violation dominates more, and between two
/// that count the objectives decide. Ref: Deb, Pratap, Agarwal & Meyarivan 2002, definition 1.
bool dominates(const Individual& a, const Individual& b);

/// The front of each individual: 0 for those that no other one dominates, 1 for those that only these dominate, and so on.
/// Cost: O(n log n) for one and two objectives; else O(M n^2) at most, for M of them.
/// Ref: Zhang, Tian, Cheng & Jin 2015, with binary search.
std::vector<size_t> front_numbers(std::span<const Individual* const> individuals);

/// How far apart a point's neighbours are, on a front of their own: the sum, over objectives, of the distance between the next smaller and the next
/// larger value, as a share of the range. Infinite for the least and the greatest. Ref: Deb et al. 2002, section III B.
/// @param points of one size. Cost: O(M n log n)
std::vector<double> crowding_distances(std::span<const ObjectiveView> points);

/// The best of all: those that count and no other one dominates, by ascending objectives, the first one first. Of those that are equal in all
/// objectives, the one with the smallest trial.
std::vector<const Individual*> front_of(std::span<const Individual> individuals);

}  // namespace tw::search
