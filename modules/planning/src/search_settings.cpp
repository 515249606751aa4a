// SPDX-License-Identifier: Apache-2.0
#include "search_settings.hpp"

#include <algorithm>
#include <bit>

#include "schedule_order.hpp"

namespace tw::pipeline {
namespace {

constexpr int max_mixed_devices = 32;  // beyond, a search with any number of replicas for each stage takes minutes

// For a number of micro-batches per device in a row, bubbles are short: larger numbers are tried with 1F1B and GPipe alone.
constexpr int many_per_device = 16;
constexpr int many_given_per_device = 64;  // for a given number of micro-batches
constexpr int always_few = 64;             // micro-batches, on any number of devices

/// Whether devices wait less than in 1F1B and GPipe.
bool shortens_bubbles(ScheduleKind schedule) { return schedule != ScheduleKind::one_forward_one_backward && schedule != ScheduleKind::gpipe; }

/// A power of two, or three times one.
bool is_round(int depth) { return std::has_single_bit(static_cast<unsigned>(depth % 3 == 0 ? depth / 3 : depth)); }

/// Collects settings. The depth of a pipeline is its number of devices in a row.
class Settings {
 public:
  Settings(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options)
      : costs_(costs),
        cluster_(cluster),
        options_(options),
        max_depth_(std::min(cluster.devices, options.stages.value_or(options.max_stages.value_or(cluster.devices)))) {}

  void add(ScheduleKind schedule, int micro_batches) {
    SearchSetting setting{.schedule = schedule, .micro_batches = micro_batches, .rows = divide_up(options_.batch, micro_batches)};
    if (options_.stages && micro_batches == 1) setting.balance = 1e-3;
    const bool is_uniform = stages_per_device(schedule) > 1 || options_.stages || cluster_.devices > max_mixed_devices;
    if (is_uniform) {
      add_uniform(setting);
    } else {
      add_mixed(setting);
    }
  }

  std::vector<SearchSetting> take() { return std::move(settings_); }

 private:
  /// The smallest depth for which a kind of schedule is worth trying.
  int min_depth(ScheduleKind schedule) const {
    return std::max(options_.stages.value_or(1), shortens_bubbles(schedule) && !options_.schedule ? 2 : 1);
  }
  /// The largest depth for which each stage can have a block, or the smallest depth; less than that if there are too few devices.
  int max_depth(ScheduleKind schedule) const {
    return std::min(max_depth_, std::max(min_depth(schedule), costs_.blocks() / stages_per_device(schedule)));
  }
  /// Whether bubbles are short, and lists are long, because there are many micro-batches.
  bool has_short_bubble(const SearchSetting& setting, int depth) const {
    const int many = (options_.micro_batches ? many_given_per_device : many_per_device) * depth;
    return shortens_bubbles(setting.schedule) && !options_.schedule && setting.micro_batches > std::max(always_few, many);
  }

  /// Any numbers of replicas. In ZB-H1, what waits depends on the number of stages: a setting for each doubling of it.
  void add_mixed(SearchSetting setting) {
    setting.devices = cluster_.devices;
    const bool by_doubling = setting.schedule == ScheduleKind::zero_bubble_h1;
    const int last = max_depth(setting.schedule);
    for (int least = min_depth(setting.schedule); least <= last; least = setting.max_stages + 1) {
      setting.min_stages = least;
      setting.max_stages = by_doubling ? std::min(last, static_cast<int>(std::bit_ceil(static_cast<unsigned>(least)))) : last;
      if (!has_short_bubble(setting, setting.max_stages)) settings_.push_back(setting);
    }
  }

  /// A setting for each depth and number of replicas, which all stages have.
  void add_uniform(const SearchSetting& setting) {
    for (const int depth : depths(setting.schedule)) {
      if (has_short_bubble(setting, depth)) continue;
      for (const int replicas : replica_counts(setting.rows, depth)) {
        SearchSetting made = setting;
        made.min_stages = made.max_stages = depth * stages_per_device(setting.schedule);
        made.min_replicas = made.max_replicas = replicas;
        made.devices = made.max_stages * replicas;
        settings_.push_back(std::move(made));
      }
    }
  }

  /// The smallest and the largest depth, divisors of the number of devices, and round numbers.
  std::vector<int> depths(ScheduleKind schedule) const {
    const int first = min_depth(schedule);
    const int last = max_depth(schedule);
    std::vector<int> made;
    for (int depth = first; depth <= last; ++depth) {
      if (depth == first || depth == last || cluster_.devices % depth == 0 || is_round(depth)) made.push_back(depth);
    }
    return made;
  }

  /// The largest number of replicas for which each has fewer rows than with one less, and all powers of two up to its half: gradients of fewer
  /// replicas take less time. @param rows of a micro-batch
  std::vector<int> replica_counts(int64_t rows, int depth) const {
    if (options_.stages) return {1};
    const int64_t most = std::min<int64_t>(cluster_.devices / depth, rows);
    const int64_t largest = options_.parameters.sharded_optimizer ? most : divide_up(rows, divide_up(rows, most));
    std::vector<int> counts{static_cast<int>(largest)};
    for (auto smaller = std::bit_floor(static_cast<uint64_t>(largest / 2)); smaller >= 1; smaller /= 2) counts.push_back(static_cast<int>(smaller));
    return counts;
  }

  const BlockCostTable& costs_;
  const Cluster& cluster_;
  const PlanOptions& options_;
  int max_depth_;  // by devices and options
  std::vector<SearchSetting> settings_;
};

}  // namespace

std::vector<SearchSetting> settings_of(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options) {
  Settings settings(costs, cluster, options);
  for (const int m : micro_batch_counts(options)) {
    for (const ScheduleKind kind : by_complexity) {
      if (options.schedule.value_or(kind) == kind) settings.add(kind, m);
    }
  }
  return settings.take();
}

SearchSetting with_limits(SearchSetting setting, const BlockCostTable& costs, DefaultSchedules& schedules) {
  const int per_device = stages_per_device(setting.schedule);
  if (per_device == 1) return setting;
  const HeldMicroBatches& held = schedules.get(setting.schedule, setting.max_stages / per_device, setting.micro_batches).held;
  setting.held = held.activations;
  setting.waiting = std::ranges::max(held.waiting);
  const BlockCosts& all = costs.at(0, costs.blocks());
  const auto rows = static_cast<double>(share_of_rows(setting.rows, setting.max_replicas));
  setting.even_pass = (all.forward.of(rows) + all.backward.of(rows)) / setting.max_stages;
  return setting;
}

Cluster share_of(Cluster cluster, ScheduleKind schedule) {
  cluster.memory_bytes /= stages_per_device(schedule);
  return cluster;
}

}  // namespace tw::pipeline
