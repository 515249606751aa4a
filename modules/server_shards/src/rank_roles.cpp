// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <tw/base/contract.hpp>
#include <tw/server_shards/rank_roles.hpp>

namespace tw::parameter_server {

RankRoles::RankRoles(const Roles& roles, int ranks) : worker_of_(static_cast<size_t>(std::max(ranks, 0)), -1), servers_(roles.servers) {
  TW_EXPECTS(ranks >= 1, "there must be at least one rank, got ", ranks);
  TW_EXPECTS(roles.ranks_per_worker >= 1, "ranks_per_worker must be at least 1, got ", roles.ranks_per_worker);
  TW_EXPECTS(!roles.dedicated || !servers_.empty(), "dedicated servers must be named: list their ranks in Roles::servers");
  for (size_t i = 0; i < servers_.size(); ++i) {
    TW_EXPECTS(servers_[i] >= 0 && servers_[i] < ranks, "Roles::servers lists rank ", servers_[i], ", but the number of ranks is ", ranks);
    TW_EXPECTS(i == 0 || servers_[i] > servers_[i - 1], "Roles::servers must be ascending, got ", servers_[i], " after ",
               servers_[i > 0 ? i - 1 : 0]);
  }
  int trains = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (roles.dedicated && std::binary_search(servers_.begin(), servers_.end(), rank)) continue;
    if (trains % roles.ranks_per_worker == 0) leaders_.push_back(rank);
    worker_of_[static_cast<size_t>(rank)] = trains++ / roles.ranks_per_worker;
  }
  TW_EXPECTS(trains > 0, "all of the ", ranks, " ranks are dedicated servers, so no rank is left to train");
  TW_EXPECTS(trains % roles.ranks_per_worker == 0, trains, " ranks train, but their number must be a multiple of ranks_per_worker, which is ",
             roles.ranks_per_worker);
  if (servers_.empty()) servers_ = leaders_;
  std::set_union(leaders_.begin(), leaders_.end(), servers_.begin(), servers_.end(), std::back_inserter(members_));
}

}  // namespace tw::parameter_server
