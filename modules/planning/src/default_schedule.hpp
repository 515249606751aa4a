// SPDX-License-Identifier: Apache-2.0
// The default order of a kind of schedule, that of make_schedule(), and what it holds. It does not depend on times, and is made once for many plans.
#pragma once
#include <map>
#include <tuple>
#include <tw/planning/schedule.hpp>
#include <vector>

namespace tw::pipeline {

/// The numbers of micro-batches that the stages of a schedule hold.
struct HeldMicroBatches {
  std::vector<int> activations = {};  ///< by stage, see max_activations()
  std::vector<int> waiting = {};      ///< by stage, see max_waiting()
};
HeldMicroBatches held_by(const Schedule& schedule);

struct DefaultSchedule {
  ScheduleKind kind = ScheduleKind::one_forward_one_backward;
  Schedule schedule = {};
  HeldMicroBatches held = {};
};
DefaultSchedule default_schedule(ScheduleKind kind, int devices, int micro_batches);

/// Keeps default schedules for later use.
class DefaultSchedules {
 public:
  /// The reference is valid until the next call.
  const DefaultSchedule& get(ScheduleKind kind, int devices, int micro_batches);

 private:
  std::map<std::tuple<ScheduleKind, int, int>, DefaultSchedule> known_;
  size_t actions_ = 0;  // of all known schedules
};

}  // namespace tw::pipeline
