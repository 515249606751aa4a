// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <tw/planning/schedule.hpp>
#include <tw/planning/simulation.hpp>
#include <vector>

namespace tw::pipeline {

/// A schedule of this kind for stages with these times. The default order, that of make_schedule(), is for equal stages, and in halves for a forward
/// pass as long as each half. If the kind has several stages on each device, list_schedule() is tried for the given times, under the limits of what
/// stages and devices hold in the default order, and used if it is shorter in simulate() by more than a thousandth. Kinds with one stage on each
/// device leave almost no choice under these limits, so they always have the default order; so does a schedule of which a stage takes no time. The
/// list is made for times that are rounded to 1/5040 of the longest stage's forward and backward pass: rounding errors do not change it. Whether it
/// is used follows from the exact times.
/// @param times one per stage, `weights` at most `backward`. @throws ContractError for another number of times, or for times that are negative, not
/// finite, or infinite in sum over all micro-batches
Schedule schedule_for(ScheduleKind kind, int devices, int micro_batches, const std::vector<PassTimes>& times);

}  // namespace tw::pipeline
