// SPDX-License-Identifier: Apache-2.0
#include "slow_rank.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <numeric>
#include <tw/comm/collectives.hpp>
#include <tw/comm/objects.hpp>
#include <tw/mpi/topology.hpp>

namespace tw::train {

std::optional<SlowRank> slowest_of(const std::vector<double>& waits) {
  constexpr double little = 0.1;
  if (waits.size() < 2) return {};
  const auto least = std::min_element(waits.begin(), waits.end());
  const double of_others = (std::accumulate(waits.begin(), waits.end(), 0.0) - *least) / static_cast<double>(waits.size() - 1);
  if (of_others - *least < little) return {};
  return SlowRank{.rank = static_cast<int>(least - waits.begin()), .host = "", .share = of_others - *least};
}

std::optional<SlowRank> find_slow_rank(const Communicator& comm, double my_waits) {
  const at::Tensor mine = at::full({1}, my_waits, at::kDouble);
  const at::Tensor all = at::empty({comm.size()}, at::kDouble);
  allgather(comm, mine, all);
  auto slow = slowest_of({all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()});
  if (slow) slow->host = broadcast_string(comm, find_topology(comm).node, Rank(slow->rank));
  return slow;
}

}  // namespace tw::train
