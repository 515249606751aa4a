// SPDX-License-Identifier: Apache-2.0
#include <tw/pipeline/options.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/planning/schedule_check.hpp>

namespace tw::pipeline {
namespace {

template <class List>
void expect_each_stage(const char* field, const List& list, int stages) {
  TW_EXPECTS(list.empty() || list.size() == static_cast<size_t>(stages), field, " has ", list.size(), " entries for ", stages, " stages");
}

}  // namespace

void PipelineOptions::validate() const {
  expect_each_stage("replicas", replicas, schedule.stages);
  expect_each_stage("blocks", blocks, schedule.stages);
  expect_each_stage("recompute", recompute, schedule.stages);
  for (const int each : replicas) TW_EXPECTS(each >= 1, "replicas: a stage has at least one rank, got ", each);
  for (const int64_t each : blocks) TW_EXPECTS(each >= 1, "blocks: a stage has at least one block, got ", each);
  TW_EXPECTS(schedule.devices.size() == static_cast<size_t>(schedule.stages), "schedule: ", schedule.stages, " stages on ", schedule.devices.size(),
             " devices; a stage needs a device of its own");
  for (size_t device = 0; device < schedule.devices.size(); ++device) {
    for (const Action& action : schedule.devices[device]) {
      TW_EXPECTS(action.stage == static_cast<int>(device), "stage ", action.stage, " of the schedule is on device ", device, ", not on its own");
    }
  }
  TW_EXPECTS(schedule.micro_batches >= 1, "schedule: a batch has at least one micro-batch, got ", schedule.micro_batches);
  const std::vector<std::string> problems = problems_of(schedule, schedule.micro_batches);
  TW_EXPECTS(problems.empty(), "the schedule does not run: ", problems.front());
}

int PipelineOptions::ranks() const { return replicas.empty() ? schedule.stages : std::accumulate(replicas.begin(), replicas.end(), 0); }

}  // namespace tw::pipeline
