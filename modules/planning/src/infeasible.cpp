// SPDX-License-Identifier: Apache-2.0
#include "infeasible.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tw/base/concat.hpp>
#include <tw/base/numbers.hpp>

namespace tw::pipeline {
namespace {

constexpr int max_devices = 1 << 20;
constexpr int few_rows = 64;

/// The least bytes per device for blocks [begin, end) with `held` micro-batches in flight, over all recomputation modes.
double min_bytes(const BlockCostTable& costs, int begin, int end, int replicas, int held, const SearchSetting& setting, const Cluster& cluster,
                 const PlanOptions& options) {
  const int64_t share = share_of_rows(setting.rows, replicas);
  const int waiting = setting.most_waiting(held);
  const StageLoad load = stage_load(costs, begin, end, share);
  double least = infinity;
  for (const Recompute recompute : options.recompute) {
    least = std::min(least, figures_of(load, {share, replicas, held, recompute, waiting}, cluster, options.parameters).memory.total());
  }
  return least;
}

std::string names_of_block(const BlockCostTable& costs, int block) {
  const std::vector<std::string> names = name_ranges(costs.operators_of(block, block + 1), costs.order().profile());
  std::string text = concat('"', names.front(), '"');
  for (size_t i = 1; i < names.size(); ++i) text += concat(", \"", names[i], '"');
  return text;
}

std::string in_bytes(double bytes) { return concat(static_cast<int64_t>(std::ceil(bytes)), " bytes"); }

/// A message naming the block that no device can hold, with as few rows and micro-batches in flight as `settings` allow; empty: each block fits.
std::string too_large_block(const BlockCostTable& costs, const std::vector<SearchSetting>& settings, const Cluster& cluster,
                            const PlanOptions& options) {
  double worst = cluster.memory_bytes;
  int block = -1;
  for (int b = 0; b < costs.blocks(); ++b) {
    double least = infinity;
    for (const SearchSetting& setting : settings) {
      const auto replicas = static_cast<int>(std::min<int64_t>(max_devices, setting.rows));
      const int held = setting.in_flight(b + 1 == costs.blocks() ? 1 : 2);
      least = std::min(least, min_bytes(costs, b, b + 1, replicas, held, setting, cluster, options));
    }
    if (least <= worst) continue;
    worst = least;
    block = b;
  }
  if (block < 0) return "";
  return concat(names_of_block(costs, block), " alone needs ", in_bytes(worst), " on each device, ", in_bytes(worst - cluster.memory_bytes),
                " more than a device has: no number of devices is sufficient");
}

/// The plan on the fewest devices for a number of micro-batches, under the limits that the search has on as many devices.
Candidate fewest_devices_for(SearchSetting setting, const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options) {
  setting.devices = max_devices;
  setting.min_replicas = 1;
  setting.max_replicas = few_rows;
  setting.min_stages = 1;
  const int most = std::min(options.max_stages.value_or(costs.blocks()), costs.blocks());
  setting.max_stages = most;
  if (setting.schedule != ScheduleKind::zero_bubble_h1) return fewest_devices(costs, setting, cluster, options);
  // What waits in ZB-H1 depends on the largest number of stages of a setting: a power of two, or a smaller number of devices. 1F1B holds the same
  // activations, and nothing waits.
  SearchSetting without_waiting = setting;
  without_waiting.schedule = ScheduleKind::one_forward_one_backward;
  const double lower_bound = fewest_devices(costs, without_waiting, cluster, options).objective;
  Candidate fewest{.objective = infinity};
  for (setting.max_stages = 1; setting.max_stages <= most && setting.max_stages < fewest.objective; ++setting.max_stages) {
    const bool is_for_more_devices = std::has_single_bit(static_cast<unsigned>(setting.max_stages)) || setting.max_stages == most;
    if (setting.max_stages < lower_bound && !is_for_more_devices) continue;
    Candidate candidate = fewest_devices(costs, setting, cluster, options);
    const bool is_valid = is_for_more_devices || candidate.objective <= setting.max_stages;
    if (is_valid && candidate.objective < fewest.objective) fewest = std::move(candidate);
  }
  return fewest;
}

/// Describes the part of a plan for more devices that does not fit on the available ones.
std::string first_without_place(const BlockCostTable& costs, const Candidate& fewest, const Cluster& cluster, const PlanOptions& options) {
  int begin = 0;
  int devices = 0;
  int first = -1;
  double missing = 0;
  auto to_end = static_cast<int>(fewest.stages.size());
  for (const StageChoice& stage : fewest.stages) {
    devices += stage.replicas;
    const int held = fewest.setting.in_flight(to_end--);
    if (devices > cluster.devices) {
      if (first < 0) first = begin;
      missing += stage.replicas * min_bytes(costs, begin, stage.end, stage.replicas, held, fewest.setting, cluster, options);
    }
    begin = stage.end;
  }
  return concat(names_of_block(costs, first), " does not fit: the devices before it are full, and ", in_bytes(missing), " have no place");
}

}  // namespace

std::string why_infeasible(const BlockCostTable& costs, const std::vector<SearchSetting>& all_settings, const Cluster& cluster,
                           const PlanOptions& options) {
  // The first kind of schedule needs the least memory.
  const ScheduleKind kind = all_settings.front().schedule;
  std::vector<SearchSetting> settings;
  std::ranges::copy_if(all_settings, std::back_inserter(settings), [&](const SearchSetting& each) { return each.schedule == kind; });
  const std::string title = concat("the model does not fit on ", cluster.devices, cluster.devices == 1 ? " device of " : " devices of ",
                                   in_bytes(cluster.memory_bytes), ": ");
  const int least = settings.front().min_stages;
  if (least > costs.blocks()) {
    return concat("the model can be cut into at most ", costs.blocks(), costs.blocks() == 1 ? " stage" : " stages", ", but ", least, " are needed");
  }
  if (stages_per_device(kind) > 1) {
    return concat(title, "no division was found in which each of the ", stages_per_device(kind), " stages that the schedule ", name_of(kind),
                  " has on a device fits into its share of the memory");
  }
  const std::string block = too_large_block(costs, settings, cluster, options);
  if (!block.empty()) return title + block;
  if (options.stages) return concat(title, "no division into ", *options.stages, " stages, of one device each, fits");
  Candidate fewest{.objective = infinity};
  int tried = 0;
  for (const SearchSetting& setting : settings) {
    if (setting.micro_batches == tried) continue;  // differs from the one before in numbers of stages and replicas alone
    if (setting.rows > few_rows && setting.micro_batches < settings.back().micro_batches) continue;  // smaller micro-batches need less
    tried = setting.micro_batches;
    Candidate candidate = fewest_devices_for(setting, costs, cluster, options);
    if (candidate.objective < fewest.objective) fewest = std::move(candidate);
  }
  if (fewest.stages.empty()) {
    return concat(title, "with at most ", options.max_stages.value_or(costs.blocks()),
                  " stages, no number of devices is sufficient; the first block is ", names_of_block(costs, 0));
  }
  if (fewest.objective <= cluster.devices) {
    return concat(title, "no plan with equally many replicas in all stages was found; with other numbers of replicas, ", fewest.objective,
                  " devices are sufficient");
  }
  return concat(title, first_without_place(costs, fewest, cluster, options), "; ", fewest.objective, " devices are sufficient");
}

}  // namespace tw::pipeline
