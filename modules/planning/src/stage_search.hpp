// SPDX-License-Identifier: Apache-2.0
// The inner search: stages, replicas and recomputation for a fixed schedule and number of micro-batches.
#pragma once
#include <tw/planning/planner.hpp>

#include "stage_figures.hpp"

namespace tw::pipeline {

/// A stage of blocks up to `end`, from where the one before ends.
struct StageChoice {
  int end = 0;
  int replicas = 1;
  Recompute recompute = Recompute::none;

  auto operator<=>(const StageChoice&) const = default;
};

struct SearchSetting {
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  int micro_batches = 1;
  int64_t rows = 1;  ///< of a micro-batch
  int devices = 1;
  int max_stages = 1;
  int max_replicas = 1 << 20;  ///< of a stage

  bool operator==(const SearchSetting&) const = default;
};

struct Candidate {
  SearchSetting setting = {};
  std::vector<StageChoice> stages = {};
  double objective = 0;  ///< seconds: sum of tau + largest load
};

/// What the search minimises, for one stage.
struct SearchCost {
  double tau = 0;   ///< forward + backward + half of the round trips to either side, as if the neighbours had as many replicas
  double load = 0;  ///< (micro_batches - 1) x the time between two micro-batches + exposed all-reduce
};

/// Of a stage that holds; the recomputation that is fastest, and then smallest. Nothing when none holds.
std::optional<std::pair<SearchCost, Recompute>> fastest_recompute(const Stretches& stretches, int begin, int end, int replicas, int in_flight,
                                                                  const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options);

/// Candidates, at least the best one of those that exist: its objective is within the options' gap of the optimum.
/// @param good_enough an objective: only what is better is looked for, once there is one candidate
std::vector<Candidate> search_stages(const Stretches& stretches, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options,
                                     double good_enough);

/// The fewest devices, up to setting.devices, on which the stages hold, times aside; no stages when there are none.
Candidate fewest_devices(const Stretches& stretches, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options);

/// Replicas worth trying: more only where each gets fewer rows, or a smaller shard of the optimizer's state.
std::vector<int> useful_replicas(const SearchSetting& setting, const ParameterMemory& parameters);

}  // namespace tw::pipeline
