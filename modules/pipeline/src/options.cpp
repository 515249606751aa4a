// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/options.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/planning/plan.hpp>
#include <tw/planning/schedule_check.hpp>

namespace tw::pipeline {
namespace {

constexpr int max_stages = 4096;  // messages need tags of their own for each border between stages

template <class List>
void expect_each(const char* field, const List& list, size_t count, const char* what) {
  TW_EXPECTS(list.empty() || list.size() == count, field, " has ", list.size(), " entries for ", count, what);
}

}  // namespace

void visit(PipelineOptions& options, OptionVisitor& visitor) {
  visitor.field("replicas", options.replicas, at_least(1), {.meaning = "ranks of each device of the schedule; empty: one each", .unit = "ranks"});
  visitor.field("recompute", options.recompute, recompute_names(), {.meaning = "recomputation of each stage; empty: none"});
  visitor.field("seed", options.seed, Bounds{}, {.meaning = "seed of the random numbers that are drawn in run()"});
}

void PipelineOptions::validate() const {
  expect_none(out_of_bounds(*this));
  expect_each("replicas", replicas, schedule.devices.size(), " devices");
  expect_each("recompute", recompute, static_cast<size_t>(schedule.stages), " stages");
  TW_EXPECTS(schedule.micro_batches >= 1, "schedule: a batch must have at least one micro-batch, got ", schedule.micro_batches);
  TW_EXPECTS(schedule.stages <= max_stages, "schedule: there may be at most ", max_stages, " stages, got ", schedule.stages);
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    TW_EXPECTS(!schedule.devices[device].empty(), "device ", device, " of the schedule has no stage");
  }
  const std::vector<std::string> problems = problems_of(schedule, schedule.micro_batches);
  TW_EXPECTS(problems.empty(), "the schedule does not run to completion: ", problems.front());
}

int PipelineOptions::ranks() const {
  return replicas.empty() ? static_cast<int>(schedule.devices.size()) : std::accumulate(replicas.begin(), replicas.end(), 0);
}

}  // namespace tw::pipeline
