// SPDX-License-Identifier: Apache-2.0
#include "stage_table.hpp"

#include <algorithm>
#include <cmath>

namespace tw::pipeline {
namespace {

SearchCost cost_of(const StageFigures& figures, const StageLoad& load, bool is_last, const SearchSetting& setting, const Cluster& cluster) {
  const double in = load.is_first ? 0 : cluster.between_stages.transfer(load.input_bytes);
  const double out = is_last ? 0 : cluster.between_stages.transfer(load.output_bytes);
  SearchCost cost{.tau = figures.forward_s + figures.backward_s + in + out};
  // GPipe's transfers overlap with the next micro-batch; in 1F1B, a stage waits for each round trip.
  const double longest = std::max(in, out);
  const bool hides = setting.schedule == ScheduleKind::gpipe;
  const double interval = hides ? std::max(figures.forward_s, longest) + std::max(figures.backward_s, longest) : cost.tau;
  const int stages = stages_per_device(setting.schedule);  // whose turns come before the next micro-batch's; assumed to take as long
  cost.load = (setting.micro_batches - 1 + setting.balance) * stages * interval +
              (cluster.overlapped_all_reduce ? std::max(0.0, figures.all_reduce_s - figures.backward_s) : figures.all_reduce_s);
  return cost;
}

bool allows(const PlanOptions& options, Recompute recompute) {
  return std::find(options.recompute.begin(), options.recompute.end(), recompute) != options.recompute.end();
}

/// The largest number of micro-batches in flight that fits, up to setting.micro_batches.
int limit_of(const StageLoad& load, StageSetting stage, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options) {
  const auto total = [&](int in_flight) {
    stage.in_flight = in_flight;
    return figures_of(load, stage, cluster, options.parameters).memory.total();
  };
  if (total(setting.micro_batches) <= cluster.memory_bytes) return setting.micro_batches;
  const double none = total(0);
  const double each = total(1) - none;
  if (none > cluster.memory_bytes || each <= 0) return 0;
  int limit = static_cast<int>(std::min<double>(std::floor((cluster.memory_bytes - none) / each), setting.micro_batches));
  while (limit > 0 && total(limit) > cluster.memory_bytes) --limit;
  return limit;
}

}  // namespace

std::vector<int> useful_replicas(const SearchSetting& setting, const ParameterMemory& parameters) {
  std::vector<int> useful;
  for (int n = setting.min_replicas; n <= std::min<int64_t>({setting.devices, setting.max_replicas, setting.rows}); ++n) {
    if (n == setting.min_replicas || parameters.sharded_optimizer || share_of_rows(setting.rows, n) < share_of_rows(setting.rows, n - 1))
      useful.push_back(n);
  }
  return useful;
}

std::optional<std::pair<SearchCost, Recompute>> fastest_recompute(const BlockCostTable& costs, int begin, int end, int replicas, int in_flight,
                                                                  const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options) {
  const int64_t rows = share_of_rows(setting.rows, replicas);
  const StageLoad load = stage_load(costs, begin, end, rows);
  std::optional<std::pair<SearchCost, Recompute>> best;
  double least = 0;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (!allows(options, recompute)) continue;
    const StageFigures figures = figures_of(load, {rows, replicas, in_flight, recompute, setting.most_waiting()}, cluster, options.parameters);
    const double bytes = figures.memory.total();
    if (bytes > cluster.memory_bytes) continue;
    const SearchCost cost = cost_of(figures, load, end == costs.blocks(), setting, cluster);
    if (best && (cost.tau > best->first.tau || (cost.tau == best->first.tau && bytes >= least))) continue;
    best = {cost, recompute};
    least = bytes;
  }
  return best;
}

StageTable::StageTable(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options)
    : blocks_(costs.blocks()), replicas_(useful_replicas(setting, options.parameters)) {
  entries_.resize(replicas_.size() * static_cast<size_t>(blocks_) * static_cast<size_t>(blocks_));
  for (size_t which = 0; which < replicas_.size(); ++which) {
    const int64_t rows = share_of_rows(setting.rows, replicas_[which]);
    for (int begin = 0; begin < blocks_; ++begin) {
      double segment = 0;
      for (int end = begin + 1; end <= blocks_; ++end) {
        const auto r = static_cast<double>(rows);
        segment = std::max(segment, costs.at(begin, end).kept.of(r) + costs.at(end - 1, end).peak.of(r));  // BlockCostTable::segments_peak()
        const StageLoad load = stage_load(costs, begin, end, rows, segment);
        Entry& entry = entries_[index(which, begin, end)];
        for (const Recompute recompute : options.recompute) {
          const StageSetting stage{rows, replicas_[which], 1, recompute, setting.most_waiting()};
          Limited& limited = recompute == Recompute::none ? entry.kept : entry.recomputed;
          limited.cost = cost_of(figures_of(load, stage, cluster, options.parameters), load, end == blocks_, setting, cluster);
          limited.limit = std::max(limited.limit, limit_of(load, stage, setting, cluster, options));
        }
      }
    }
  }
}

}  // namespace tw::pipeline
