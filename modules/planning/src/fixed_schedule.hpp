// SPDX-License-Identifier: Apache-2.0
// What a prediction needs of a schedule of make_schedule(), which does not depend on times. Made once for many plans.
#pragma once
#include <map>
#include <optional>
#include <tuple>
#include <tw/planning/simulation.hpp>

namespace tw::pipeline {

/// The numbers of micro-batches that the stages of a schedule hold.
struct Held {
  std::vector<int> activations = {};  ///< by stage, see max_activations()
  std::vector<int> waiting = {};      ///< by stage, see max_waiting()
};
Held held_by(const Schedule& schedule);

struct FixedSchedule {
  ScheduleKind kind = ScheduleKind::one_forward_one_backward;
  Schedule schedule = {};
  Held held = {};
};
FixedSchedule fixed_schedule(ScheduleKind kind, int devices, int micro_batches);

/// A schedule of the same kind for stages with these times, which holds no more than `fixed` on any stage; empty if none was found that is shorter.
std::optional<Schedule> schedule_by_times(const FixedSchedule& fixed, const std::vector<PassTimes>& times);

/// Keeps schedules for later use.
class FixedSchedules {
 public:
  /// The reference is valid until the next call.
  const FixedSchedule& get(ScheduleKind kind, int devices, int micro_batches);

 private:
  std::map<std::tuple<ScheduleKind, int, int>, FixedSchedule> known_;
  size_t actions_ = 0;  // of all known schedules
};

}  // namespace tw::pipeline
