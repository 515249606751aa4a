// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/schedule.hpp>

namespace tw::pipeline {

/// Orders schedules from simple to complicated. 1F1B comes first: it holds less than GPipe. The other kinds follow in their order.
inline int complexity(ScheduleKind kind) { return kind == ScheduleKind::one_forward_one_backward ? -1 : static_cast<int>(kind); }

}  // namespace tw::pipeline
