// SPDX-License-Identifier: Apache-2.0
#include <tw/planning/stage_ranks.hpp>

namespace tw::pipeline {

StageRanks::StageRanks(std::vector<int> replicas) : replicas_(std::move(replicas)) {
  int first = 0;
  for (const int each : replicas_) {
    first_.push_back(first);
    first += each;
  }
}

int StageRanks::stage_of(int rank) const { return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), rank) - first_.begin()) - 1; }

Rows StageRanks::share(Rows micro_batch, int rank) const { return part_of(micro_batch, replicas(stage_of(rank)), replica_of(rank)); }

std::vector<Peer> StageRanks::peers(int stage, Rows micro_batch, Rows mine) const {
  std::vector<Peer> peers;
  if (stage < 0 || stage >= stages()) return peers;
  for (int rank = first_rank(stage); rank < first_rank(stage) + replicas(stage); ++rank) {
    const Rows theirs = share(micro_batch, rank);
    const Rows common{std::max(theirs.begin, mine.begin), std::min(theirs.end, mine.end)};
    if (common.count() > 0) peers.push_back({rank, common});
  }
  return peers;
}

}  // namespace tw::pipeline
