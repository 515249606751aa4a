// SPDX-License-Identifier: Apache-2.0
// The inner search: stages, replicas and recomputation for a fixed schedule and number of micro-batches.
#pragma once
#include <algorithm>
#include <tw/planning/planner.hpp>

#include "stage_figures.hpp"

namespace tw::pipeline {

/// A stage from the end of the previous one up to block `end`.
struct StageChoice {
  int end = 0;
  int replicas = 1;
  Recompute recompute = Recompute::none;

  auto operator<=>(const StageChoice&) const = default;
};

struct SearchSetting {
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  int micro_batches = 1;
  int64_t rows = 1;  ///< rows of a micro-batch
  int devices = 1;   ///< the most devices of a plan. If all stages have equally many replicas: stages x replicas, also with several on a device
  int max_stages = 1;
  int min_replicas = 1;
  int max_replicas = 1 << 20;  ///< per stage
  int min_stages = 1;
  // With several stages on a device, all plans of a setting have the same number of stages. The next three fields are set then, by with_limits().
  std::vector<int> held = {};  ///< by stage, the number of micro-batches whose activations it holds at a time
  int waiting = 0;             ///< on any stage, the largest number of micro-batches that wait for the weights' half of their backward pass
  double even_pass = 0;        ///< seconds of the forward and backward pass of a stage if all stages are equal
  /// Share of the slowest stage's time that is added to the objective. With one micro-batch, all cuts take the same time; this prefers even ones.
  double balance = 0;

  /// Number of micro-batches whose activations a stage holds at the same time. @param to_end number of stages from this one to the last, inclusive
  int in_flight(int to_end) const {
    if (!held.empty()) return held[held.size() - static_cast<size_t>(to_end)];
    return schedule == ScheduleKind::gpipe ? micro_batches : std::min(micro_batches, to_end);
  }
  /// The largest in_flight() of any stage.
  int most_in_flight() const { return held.empty() ? in_flight(max_stages) : *std::max_element(held.begin(), held.end()); }

  /// Number of micro-batches that wait for the weights' half of their backward pass, at most, on a stage that holds activations of `in_flight`. In
  /// ZB-H1, stages hold more activations the earlier they are, and leave more weights' halves waiting the later they are; the search does not know
  /// how many stages come before, and assumes as many as there may be.
  int most_waiting(int in_flight) const {
    if (!held.empty()) return waiting;
    return schedule == ScheduleKind::zero_bubble_h1 ? std::clamp(max_stages - in_flight + 1, 1, micro_batches) : 0;
  }
  /// The number of micro-batches in flight from which most_waiting() falls; up to there, it is constant.
  int waiting_falls_from() const { return std::clamp(max_stages - micro_batches + 1, 1, most_in_flight()); }

  /// Whether all stages have equally many replicas. The number of devices then follows from that of stages.
  bool is_uniform() const noexcept { return min_replicas == max_replicas; }

  bool operator==(const SearchSetting&) const = default;
};

struct Candidate {
  SearchSetting setting = {};
  std::vector<StageChoice> stages = {};
  double objective = 0;  ///< seconds: sum of tau + largest load
};

/// The cost of one stage that the search minimises, see planner.hpp.
struct SearchCost {
  double tau = 0;   ///< what the stage adds to the time before the slowest device begins and after it ends
  double load = 0;  ///< the time of its device if that never waits, less its tau, and the exposed all-reduce

  double sum() const noexcept { return tau + load; }
};

/// The cost of a stage that fits in memory, with the fastest recomputation, and the smallest of equally fast ones. Empty if none fits.
std::optional<std::pair<SearchCost, Recompute>> fastest_recompute(const BlockCostTable& costs, int begin, int end, int replicas, int in_flight,
                                                                  const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options);

/// A lower bound of the objective for `stages` stages with as many replicas each.
double lower_bound(const BlockCostTable& costs, const SearchSetting& setting, int stages, int replicas, const Cluster& cluster,
                   const PlanOptions& options);

/// Candidates. If any exist with an objective below `good_enough`, they include one within the options' gap of the optimum.
std::vector<Candidate> search_stages(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options,
                                     double good_enough);

/// The plan with the fewest devices, up to setting.devices, that fits in memory, regardless of time; no stages if there is none.
Candidate fewest_devices(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options);

/// Numbers of replicas worth trying: a larger number only if each replica then has fewer rows, or a smaller shard of the optimizer's state.
std::vector<int> useful_replicas(const SearchSetting& setting, const ParameterMemory& parameters);

}  // namespace tw::pipeline
