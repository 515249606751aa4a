// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iomanip>
#include <tw/base/concat.hpp>

#include <ranges>
#include <tw/base/number_text.hpp>
#include <tw/base/text_stream.hpp>
#include "text.hpp"

namespace tw::pipeline {
namespace {

/// A table whose columns are as wide as their contents; the last column is left-aligned.
class Table {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void write(std::ostream& out) const {
    std::vector<size_t> widths(rows_.front().size(), 0);
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (const auto& row : rows_) {
      for (size_t i = 0; i + 1 < row.size(); ++i) out << std::setw(static_cast<int>(widths[i])) << row[i] << "  ";
      out << row.back() << '\n';
    }
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string operators_text(const StagePlan& stage, const Profile& profile) {
  constexpr size_t max_ranges = 3;
  const std::vector<std::string> names = name_ranges(stage.operators, profile);
  const std::string text = joined(names | std::views::take(max_ranges));
  return names.size() > max_ranges ? concat(text, ", and ", names.size() - max_ranges, " more") : text;
}

void write_stages(std::ostream& out, const Plan& plan, const Profile& profile) {
  Table times;
  times.add({"stage", "replicas", "recompute", "forward ms", "backward ms", "transfer ms", "all-reduce ms", "exposed ms", "operators"});
  Table memory;
  memory.add({"stage", "in flight", "weights", "gradients", "optimizer", "activations", "recomputed", "buffers",
              stages_per_device(plan.schedule) == 1 ? "GB of a device" : "GB"});
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& stage = plan.stages[i];
    const StageFigures& f = stage.figures;
    const auto as_ms = [](double seconds) { return fixed_text(1e3 * seconds, 3); };
    times.add({concat(i), concat(stage.replicas), name_of(stage.recompute), as_ms(f.forward_s), as_ms(f.backward_s), as_ms(f.transfer_s),
               as_ms(f.all_reduce_s), as_ms(f.exposed_s), operators_text(stage, profile)});
    memory.add({concat(i), concat(f.in_flight), gigabytes(f.memory.weights), gigabytes(f.memory.gradients), gigabytes(f.memory.optimizer),
                gigabytes(f.memory.activations), gigabytes(f.memory.recomputation), gigabytes(f.memory.communication), gigabytes(f.memory.total())});
  }
  out << "\ntimes of one micro-batch on one replica; the all-reduce is per batch, and its exposed part does not overlap with computation\n";
  times.write(out);
  out << "\nmemory of a device in GB\n";
  memory.write(out);
  if (stages_per_device(plan.schedule) == 1) return;
  out << "at most, with all stages of a device: " << joined(device_memory(plan), ", ", &gigabytes) << '\n';
}

void write_gantt(std::ostream& out, const Plan& plan) {
  constexpr int max_actions = 4000;
  out << "\nstages over time, bubble " << percent(plan.bubble) << ":\n";
  if (2 * plan.micro_batches * static_cast<int>(plan.stages.size()) <= max_actions) {
    out << gantt_text(simulation_of(plan));
  } else {
    out << "(too many micro-batches for a chart)\n";
  }
}

}  // namespace

std::string describe(const Plan& plan, const Profile& profile) {
  TextWriter out;
  out << summary(plan) << "\nbatch " << plan.batch << ", " << plan.rows() << " rows a micro-batch\n";
  write_stages(out, plan, profile);
  write_gantt(out, plan);
  return std::move(out).str();
}

}  // namespace tw::pipeline
