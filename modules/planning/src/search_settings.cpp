// SPDX-License-Identifier: Apache-2.0
#include "search_settings.hpp"

#include <algorithm>
#include <bit>

namespace tw::pipeline {
namespace {

constexpr int max_mixed_devices = 32;  // beyond, a search with any number of replicas for each stage takes minutes

/// Whether devices wait less than in 1F1B and GPipe.
bool shortens_bubbles(ScheduleKind schedule) { return schedule != ScheduleKind::one_forward_one_backward && schedule != ScheduleKind::gpipe; }

/// A power of two, or three times one.
bool is_round(int row) { return std::has_single_bit(static_cast<unsigned>(row % 3 == 0 ? row / 3 : row)); }

/// Collects settings.
class Settings {
 public:
  Settings(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options, FixedSchedules& schedules)
      : costs_(costs),
        cluster_(cluster),
        options_(options),
        schedules_(schedules),
        last_row_(std::min(cluster.devices, options.stages.value_or(options.max_stages.value_or(cluster.devices)))) {}

  void add(ScheduleKind schedule, int micro_batches) {
    SearchSetting setting{.schedule = schedule, .micro_batches = micro_batches, .rows = divide_up(options_.batch, micro_batches)};
    if (options_.stages && micro_batches == 1) setting.balance = 1e-3;
    const bool is_uniform = stages_per_device(schedule) > 1 || options_.stages || cluster_.devices > max_mixed_devices;
    is_uniform ? add_rows(setting) : add_mixed(setting);
  }

  std::vector<SearchSetting> take() { return std::move(settings_); }

 private:
  /// The smallest number of devices in a row for which a kind of schedule is worth trying.
  int first_row(ScheduleKind schedule) const {
    return std::max(options_.stages.value_or(1), shortens_bubbles(schedule) && !options_.schedule ? 2 : 1);
  }
  /// Whether bubbles are short, and lists are long, because there are many micro-batches.
  bool has_short_bubble(const SearchSetting& setting, int row) const {
    return shortens_bubbles(setting.schedule) && !options_.micro_batches && setting.micro_batches > std::max(64, 16 * row);
  }

  /// Any numbers of replicas. In ZB-H1, what waits depends on the number of stages: a setting for each doubling of it.
  void add_mixed(SearchSetting setting) {
    setting.devices = cluster_.devices;
    const bool by_doubling = setting.schedule == ScheduleKind::zero_bubble_h1;
    for (int least = first_row(setting.schedule); least <= last_row_; least = setting.max_stages + 1) {
      setting.min_stages = least;
      setting.max_stages = by_doubling ? std::min(last_row_, static_cast<int>(std::bit_ceil(static_cast<unsigned>(least)))) : last_row_;
      if (least > costs_.blocks() && least > first_row(setting.schedule)) return;
      if (!has_short_bubble(setting, setting.max_stages)) settings_.push_back(setting);
    }
  }

  /// One setting for each number of devices in a row, which all have the same number of replicas.
  void add_rows(const SearchSetting& setting) {
    const int first = first_row(setting.schedule);
    for (int row = first; row <= last_row_; ++row) {
      if (row > first && row < last_row_ && cluster_.devices % row != 0 && !is_round(row)) continue;
      if (has_short_bubble(setting, row)) continue;
      SearchSetting made = setting;
      made.min_stages = made.max_stages = row * stages_per_device(setting.schedule);
      if (made.max_stages > costs_.blocks() && row > first) return;
      const int64_t most = std::min<int64_t>(cluster_.devices / row, setting.rows);
      const int64_t useful = options_.parameters.sharded_optimizer ? most : divide_up(setting.rows, divide_up(setting.rows, most));
      made.max_replicas = options_.stages ? 1 : static_cast<int>(useful);  // more would have as many rows each
      made.min_replicas = made.max_replicas;
      made.devices = made.max_stages * made.max_replicas;
      if (stages_per_device(setting.schedule) > 1) {
        const Held& held = schedules_.get(setting.schedule, row, setting.micro_batches).held;
        made.held = held.activations;
        made.waiting = std::ranges::max(held.waiting);
        const BlockCosts& all = costs_.at(0, costs_.blocks());
        const auto rows = static_cast<double>(share_of_rows(setting.rows, made.max_replicas));
        made.even_pass = (all.forward.of(rows) + all.backward.of(rows)) / made.max_stages;
      }
      settings_.push_back(std::move(made));
    }
  }

  const BlockCostTable& costs_;
  const Cluster& cluster_;
  const PlanOptions& options_;
  FixedSchedules& schedules_;
  int last_row_;
  std::vector<SearchSetting> settings_;
};

}  // namespace

std::vector<SearchSetting> settings_of(const BlockCostTable& costs, const Cluster& cluster, const PlanOptions& options, FixedSchedules& schedules) {
  using enum ScheduleKind;
  Settings settings(costs, cluster, options, schedules);
  for (const int m : micro_batch_counts(options)) {
    for (const ScheduleKind kind : {one_forward_one_backward, gpipe, zero_bubble_h1, interleaved, zero_bubble_v}) {
      if (options.schedule.value_or(kind) == kind) settings.add(kind, m);
    }
  }
  return settings.take();
}

Cluster share_of(Cluster cluster, ScheduleKind schedule) {
  cluster.memory_bytes /= stages_per_device(schedule);
  return cluster;
}

}  // namespace tw::pipeline
