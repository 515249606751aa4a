// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <tw/state/layout.hpp>

namespace tw {

/// Whether `box` has the dimensions of `shape` and does not exceed it.
bool lies_in(const Box& box, const std::vector<int64_t>& shape);

/// The common part of two boxes of one tensor; none if it is empty.
std::optional<Box> intersection(const Box& a, const Box& b);

/// `offsets` in the global tensor, relative to the beginning of `box`.
std::vector<int64_t> relative(const std::vector<int64_t>& offsets, const Box& box);

/// The dimension along which boxes begin at the most places, so that few overlap along it; none for 0-dimensional tensors, or without boxes.
std::optional<size_t> dimension_of_cuts(const std::vector<const Box*>& boxes);

}  // namespace tw
