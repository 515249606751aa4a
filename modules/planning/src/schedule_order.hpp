// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <tw/planning/schedule.hpp>

namespace tw::pipeline {

/// All kinds, from simple to complicated. 1F1B comes first: it holds less than GPipe.
inline constexpr std::array by_complexity{ScheduleKind::one_forward_one_backward, ScheduleKind::gpipe, ScheduleKind::zero_bubble_h1,
                                          ScheduleKind::interleaved, ScheduleKind::zero_bubble_v};

/// The position in that order.
constexpr int complexity(ScheduleKind kind) { return static_cast<int>(std::ranges::find(by_complexity, kind) - by_complexity.begin()); }

}  // namespace tw::pipeline
