// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <tw/base/concat.hpp>
#include <tw/planning/stage_ranks.hpp>
#include <utility>

namespace tw::pipeline {

StageRanks::StageRanks(std::vector<int> replicas, std::vector<int> device_of_stages)
    : replicas_(std::move(replicas)), device_of_stages_(std::move(device_of_stages)), stages_of_(replicas_.size()) {
  if (device_of_stages_.empty()) {
    device_of_stages_.resize(replicas_.size());
    std::iota(device_of_stages_.begin(), device_of_stages_.end(), 0);
  }
  for (int stage = 0; stage < stages(); ++stage) stages_of_.at(static_cast<size_t>(device_of_stage(stage))).push_back(stage);
  int first = 0;
  for (const int each : replicas_) {
    first_.push_back(first);
    first += each;
  }
}

std::string StageRanks::stage_names(int device) const {
  const std::vector<int>& stages = stages_of(device);
  std::string text = concat(stages.size() == 1 ? "stage " : "stages ", stages.front());
  for (size_t i = 1; i < stages.size(); ++i) text += concat(", ", stages[i]);
  return text;
}

int StageRanks::device_of(int rank) const { return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin()) - 1; }

Rows StageRanks::share(Rows micro_batch, int rank) const { return part_of(micro_batch, replicas(device_of(rank)), replica_of(rank)); }

std::vector<Peer> StageRanks::peers(int stage, Rows micro_batch, Rows mine) const {
  std::vector<Peer> peers;
  if (stage < 0 || stage >= stages()) return peers;
  const int device = device_of_stage(stage);
  for (int rank = first_rank(device); rank < first_rank(device) + replicas(device); ++rank) {
    const Rows theirs = share(micro_batch, rank);
    const Rows common{std::max(theirs.begin, mine.begin), std::min(theirs.end, mine.end)};
    if (common.count() > 0) peers.push_back({rank, common});
  }
  return peers;
}

}  // namespace tw::pipeline
