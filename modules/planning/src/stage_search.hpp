// SPDX-License-Identifier: Apache-2.0
// The inner search: stages, replicas and recomputation for a fixed schedule and number of micro-batches.
#pragma once
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
  int devices = 1;
  int max_stages = 1;
  int min_replicas = 1;
  int max_replicas = 1 << 20;  ///< per stage
  int min_stages = 1;
  /// With several stages on a device: by stage, the number of micro-batches whose activations it holds at a time. All plans then have as many stages.
  std::vector<int> held = {};
  int waiting = 0;  ///< likewise, the largest number of any stage that wait for the weights' half of their backward pass
  /// Share of the slowest stage's time that is added to the objective. With one micro-batch, all cuts take the same time; this prefers even ones.
  double balance = 0;

  /// Number of micro-batches whose activations a stage holds at the same time. @param to_end number of stages from this one to the last, inclusive
  int in_flight(int to_end) const {
    if (!held.empty()) return held[held.size() - static_cast<size_t>(to_end)];
    return schedule == ScheduleKind::gpipe ? micro_batches : std::min(micro_batches, to_end);
  }

  /// Number of micro-batches that wait for the weights' half of their backward pass on any stage, at most: the search does not know how many stages
  /// come before.
  int most_waiting() const {
    if (!held.empty()) return waiting;
    return schedule == ScheduleKind::zero_bubble_h1 ? std::min(micro_batches, max_stages) : 0;
  }

  bool operator==(const SearchSetting&) const = default;
};

struct Candidate {
  SearchSetting setting = {};
  std::vector<StageChoice> stages = {};
  double objective = 0;  ///< seconds: sum of tau + largest load
};

/// The cost of one stage that the search minimises.
struct SearchCost {
  double tau = 0;   ///< forward + backward + half of the round trips to both neighbours, assuming that these have the same number of replicas
  double load = 0;  ///< (micro_batches - 1) x stages on a device x the time between two micro-batches + exposed all-reduce
};

/// The cost of a stage that fits in memory, with the fastest recomputation, and the smallest of equally fast ones. Empty if none fits.
std::optional<std::pair<SearchCost, Recompute>> fastest_recompute(const BlockCostTable& costs, int begin, int end, int replicas, int in_flight,
                                                                  const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options);

/// Candidates. If any exist, they include one whose objective is within the options' gap of the optimum.
/// @param good_enough an objective; after the first candidate, the search looks only for better ones
std::vector<Candidate> search_stages(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options,
                                     double good_enough);

/// The plan with the fewest devices, up to setting.devices, that fits in memory, regardless of time; no stages if there is none.
Candidate fewest_devices(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options);

/// Numbers of replicas worth trying: a larger number only if each replica then has fewer rows, or a smaller shard of the optimizer's state.
std::vector<int> useful_replicas(const SearchSetting& setting, const ParameterMemory& parameters);

}  // namespace tw::pipeline
