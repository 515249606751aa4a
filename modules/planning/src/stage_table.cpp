// SPDX-License-Identifier: Apache-2.0
#include "stage_table.hpp"

#include <algorithm>
#include <cmath>

namespace tw::pipeline {
namespace {

/// The part of a device's all-reduces that its last action hides, which in zero bubbles is a weights' half.
double hidden_all_reduce_s(const StageFigures& figures, const SearchSetting& setting, const Cluster& cluster) {
  if (!cluster.overlapped_all_reduce) return 0;
  const bool in_halves = setting.schedule == ScheduleKind::zero_bubble_h1 || setting.schedule == ScheduleKind::zero_bubble_v;
  return in_halves ? figures.weights_s : figures.backward_s;
}

SearchCost cost_of(const StageFigures& figures, const StageLoad& load, bool is_last, const SearchSetting& setting, const Cluster& cluster) {
  const double in = load.is_first ? 0 : cluster.between_stages.transfer(load.input_bytes);
  const double out = is_last ? 0 : cluster.between_stages.transfer(load.output_bytes);
  const double both = figures.forward_s + figures.backward_s;
  const int per_device = stages_per_device(setting.schedule);
  // With fewer micro-batches than devices in a row, devices also wait while the first one passes all stages.
  const double full = std::min(1.0, static_cast<double>(setting.micro_batches) * per_device / setting.max_stages);
  const auto fill = [&](double short_bubble, double one_pass) { return full * short_bubble + (1 - full) * one_pass + in + out; };
  SearchCost cost{.tau = both + in + out};
  double interval = cost.tau;  // 1F1B waits for each round trip
  switch (setting.schedule) {
    case ScheduleKind::one_forward_one_backward: break;
    case ScheduleKind::gpipe: {  // transfers overlap with the next micro-batch
      const double longest = std::max(in, out);
      interval = std::max(figures.forward_s, longest) + std::max(figures.backward_s, longest);
      break;
    }
    case ScheduleKind::interleaved: cost.tau = fill(both / per_device, both); break;
    case ScheduleKind::zero_bubble_h1:
    case ScheduleKind::zero_bubble_v:
      cost.tau = fill(std::max(figures.forward_s, both - 2 * figures.weights_s) / per_device, both - figures.weights_s);
      interval = std::max(both, both - figures.weights_s + in + out);  // weights' halves fill the round trips
      break;
  }
  // The stages of a device take turns; they are assumed to be equal, also in their all-reduces, which come one after the other.
  const double own = setting.schedule == ScheduleKind::gpipe ? interval : cost.tau;
  cost.load = (setting.micro_batches - 1 + setting.balance) * per_device * interval + (per_device * interval - own) +
              std::max(0.0, per_device * figures.all_reduce_s - hidden_all_reduce_s(figures, setting, cluster));
  return cost;
}

/// In ZB-V, the first and the last stage are on one device, so what only they share is not tied.
StageLoad load_in_search(const BlockCostTable& costs, int begin, int end, int64_t rows, const SearchSetting& setting,
                         std::optional<double> segment_bytes = {}) {
  StageLoad load = stage_load(costs, begin, end, rows, segment_bytes);
  const bool is_at_an_end = begin == 0 || end == costs.blocks();
  if (setting.schedule == ScheduleKind::zero_bubble_v && is_at_an_end) load.tied_bytes = costs.tied_bytes_with_joined_ends(begin, end);
  return load;
}

/// With several stages on a device, the load assumes that they take equally long. In sum over all stages, this is a tenth of the time of a device
/// whose stages are, and more if stages are uneven.
double unevenness(const StageFigures& figures, const SearchSetting& setting) {
  const double pass = figures.forward_s + figures.backward_s;
  return 0.1 * setting.micro_batches * pass * (pass / setting.even_pass) * stages_per_device(setting.schedule) / setting.max_stages;
}

bool allows(const PlanOptions& options, Recompute recompute) {
  return std::find(options.recompute.begin(), options.recompute.end(), recompute) != options.recompute.end();
}

/// The largest k such that the stage fits with each of 1 to k micro-batches in flight, up to setting.most_in_flight().
int limit_of(const StageLoad& load, StageSetting stage, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options) {
  const auto fits = [&](int in_flight) {
    stage.in_flight = in_flight;
    stage.waiting = setting.most_waiting(in_flight);
    return figures_of(load, stage, cluster, options.parameters).memory.total() <= cluster.memory_bytes;
  };
  // Memory is linear in k while the number of those that wait is constant, and while it falls.
  const auto fits_up_to = [&](int k) { return fits(k) && fits(1) && fits(std::min(k, setting.waiting_falls_from())); };
  int fitting = 0;
  int unfitting = setting.most_in_flight() + 1;
  if (fits_up_to(unfitting - 1)) return unfitting - 1;
  while (unfitting - fitting > 1) {
    const int middle = fitting + (unfitting - fitting) / 2;
    (fits_up_to(middle) ? fitting : unfitting) = middle;
  }
  return fitting;
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
  const StageLoad load = load_in_search(costs, begin, end, rows, setting);
  std::optional<std::pair<SearchCost, Recompute>> best;
  double least = 0;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (!allows(options, recompute)) continue;
    const StageFigures figures =
        figures_of(load, {rows, replicas, in_flight, recompute, setting.most_waiting(in_flight)}, cluster, options.parameters);
    const double bytes = figures.memory.total();
    if (bytes > cluster.memory_bytes) continue;
    const SearchCost cost = cost_of(figures, load, end == costs.blocks(), setting, cluster);
    if (best && (cost.sum() > best->first.sum() || (cost.sum() == best->first.sum() && bytes >= least))) continue;
    best = {cost, recompute};
    least = bytes;
  }
  return best;
}

double lower_bound(const BlockCostTable& costs, const SearchSetting& setting, int stages, int replicas, const Cluster& cluster,
                   const PlanOptions& options) {
  // The largest load is at least the mean, and the costs of a range are at most the sum of those of its parts.
  const int64_t rows = share_of_rows(setting.rows, replicas);
  const BlockCosts& all = costs.at(0, costs.blocks());
  const StageLoad load{.costs = all, .is_first = true, .parameter_bytes = all.parameter_bytes};
  const StageFigures whole = figures_of(load, {rows, replicas}, cluster, options.parameters);
  const SearchCost cost = cost_of(whole, load, true, setting, cluster);
  const int per_device = stages_per_device(setting.schedule);
  const double passes = setting.micro_batches * per_device;
  const double exposed = per_device * ring_all_reduce(replicas, whole.memory.gradients / stages, cluster.within_stage) -
                         hidden_all_reduce_s(whole, setting, cluster) / stages;
  return cost.tau * (stages - 1) / stages + passes * (whole.forward_s + whole.backward_s) / stages + std::max(0.0, exposed);
}

StageTable::Entry StageTable::entry_of(const StageLoad& load, const StageSetting& stage, bool is_last, const SearchSetting& setting,
                                       const Cluster& cluster, const PlanOptions& options) {
  Entry entry;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    if (!allows(options, recompute) || entry.kept.limit == setting.most_in_flight()) continue;
    StageSetting with = stage;
    with.recompute = recompute;
    Limited& limited = recompute == Recompute::none ? entry.kept : entry.recomputed;
    const StageFigures figures = figures_of(load, with, cluster, options.parameters);
    limited.cost = cost_of(figures, load, is_last, setting, cluster);
    if (setting.even_pass > 0) limited.cost.tau += unevenness(figures, setting);
    limited.limit = std::max(limited.limit, limit_of(load, with, setting, cluster, options));
  }
  return entry;
}

StageTable::StageTable(const BlockCostTable& costs, const SearchSetting& setting, const Cluster& cluster, const PlanOptions& options,
                       double good_enough)
    : blocks_(costs.blocks()), replicas_(useful_replicas(setting, options.parameters)) {
  entries_.resize(replicas_.size() * static_cast<size_t>(blocks_) * static_cast<size_t>(blocks_));
  const int passes = setting.micro_batches * stages_per_device(setting.schedule);  // of a device
  const int longest = blocks_ - setting.min_stages + 1;                            // other stages have a block each
  for (size_t which = 0; which < replicas_.size(); ++which) {
    const int64_t rows = share_of_rows(setting.rows, replicas_[which]);
    const auto r = static_cast<double>(rows);
    for (int begin = 0; begin < blocks_; ++begin) {
      double segment = 0;
      int end = begin + 1;
      for (; end <= std::min(blocks_, begin + longest); ++end) {
        const BlockCosts& range = costs.at(begin, end);
        if (passes * (range.forward.of(r) + range.backward.of(r)) > good_enough) break;     // so do longer ranges
        segment = std::max(segment, range.kept.of(r) + costs.at(end - 1, end).peak.of(r));  // BlockCostTable::segments_peak()
        const StageLoad load = load_in_search(costs, begin, end, rows, setting, segment);
        entries_[index(which, begin, end)] = entry_of(load, {.rows = rows, .replicas = replicas_[which]}, end == blocks_, setting, cluster, options);
      }
      last_ends_.push_back(end - 1);
    }
  }
}

}  // namespace tw::pipeline
