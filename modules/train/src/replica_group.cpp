// SPDX-License-Identifier: Apache-2.0
#include "replica_group.hpp"

namespace tw::train {

ReplicaGroup::ReplicaGroup(const Ranks& ranks, int64_t ranks_per_group)
    : ranks_(ranks), count_(ranks.data.size() / static_cast<int>(ranks_per_group)) {
  if (ranks_per_group == 1) return;
  const int group = ranks.data.rank() / static_cast<int>(ranks_per_group);
  const auto within = [group](const Communicator& comm) { return comm.split(group, comm.rank()); };
  data_ = within(ranks.data);
  samples_ = within(ranks.samples);
  all_ = within(ranks.all);
}

}  // namespace tw::train
