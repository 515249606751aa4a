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

template <class List>
void expect_each_stage(const char* field, const List& list, int stages) {
  TW_EXPECTS(list.empty() || list.size() == static_cast<size_t>(stages), field, " has ", list.size(), " entries for ", stages, " stages");
}

}  // namespace

void visit(PipelineOptions& options, OptionVisitor& visitor) {
  visitor.field("replicas", options.replicas, at_least(1), {.meaning = "ranks of each stage; empty: one each", .unit = "ranks"});
  visitor.field("recompute", options.recompute, recompute_names(), {.meaning = "recomputation of each stage; empty: none"});
  visitor.field("seed", options.seed, Bounds{}, {.meaning = "seed of the random numbers that are drawn in run()"});
}

void PipelineOptions::validate() const {
  expect_none(out_of_bounds(*this));
  expect_each_stage("replicas", replicas, schedule.stages);
  expect_each_stage("recompute", recompute, schedule.stages);
  TW_EXPECTS(schedule.devices.size() == static_cast<size_t>(schedule.stages), "schedule: ", schedule.stages, " stages on ", schedule.devices.size(),
             " devices; each stage needs its own device");
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Action& action : schedule.devices[device]) {
      TW_EXPECTS(action.stage == static_cast<int>(device), "stage ", action.stage, " of the schedule is on device ", device,
                 ", not on its own device");
    }
  }
  TW_EXPECTS(schedule.micro_batches >= 1, "schedule: a batch must have at least one micro-batch, got ", schedule.micro_batches);
  const std::vector<std::string> problems = problems_of(schedule, schedule.micro_batches);
  TW_EXPECTS(problems.empty(), "the schedule does not run to completion: ", problems.front());
}

int PipelineOptions::ranks() const { return replicas.empty() ? schedule.stages : std::accumulate(replicas.begin(), replicas.end(), 0); }

}  // namespace tw::pipeline
