// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <torch/torch.h>

#include <tw/comm.hpp>
#include <tw/parameter_server.hpp>
#include <vector>

#include "mpi_test.hpp"

/// A problem for workers to learn, and the possible roles of ranks.
namespace tw::parameter_server::testing {

using tw::testing::place;
using tw::testing::world;

inline constexpr double lr = 0.1;
// Some 30 operations in float64 on numbers below 4, each with a relative rounding error of 2^-53.
inline constexpr double tolerance = 30 * 4 * 0x1p-53;

inline std::vector<at::Tensor> parameters_from(double first) {
  return {place(torch::linspace(first, 1, 6, at::kDouble).view({2, 3})).requires_grad_(),
          place(torch::linspace(-1, first, 5, at::kDouble)).requires_grad_()};
}

inline at::Tensor flat(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : parameters) all.push_back(each.detach().cpu().flatten());
  return torch::cat(all);
}

/// The gradient of |x - 3|^2 / 2, scaled differently on each rank.
inline at::Tensor gradient_at(const at::Tensor& x, int rank) { return (x.detach() - 3) * (1 + 0.5 * rank); }

inline void set_gradients(const std::vector<at::Tensor>& parameters, int rank) {
  for (const at::Tensor& each : parameters) each.mutable_grad() = gradient_at(each, rank);
}

/// Runs `turn` on one worker after another, each after the previous one's pushes are applied. Ranks that only serve have no turn.
template <class Worker, class Turn>
void in_turns(const Worker& worker, const RankRoles& rank_roles, Turn turn) {
  const int mine = rank_roles.worker_of(world().rank());
  for (int now = 0; now < rank_roles.workers(); ++now) {
    if (now == mine) {
      turn();
      while (rank_roles.leaders()[static_cast<size_t>(mine)] == world().rank() && worker.centre().in_flight() > 0) progress(world());
    }
    barrier(world());
  }
}

/// The roles possible with this number of ranks.
inline std::vector<Roles> all_roles() {
  const int n = world().size();
  std::vector<Roles> all{{}};
  if (n > 1) all.push_back({.servers = {n - 1}, .dedicated = true});
  if (n % 2 == 0) all.push_back({.ranks_per_worker = 2});
  if (n % 2 == 0) all.push_back({.ranks_per_worker = 2, .servers = {1}});
  if (n == 3) all.push_back({.ranks_per_worker = 2, .servers = {0}, .dedicated = true});
  return all;
}

/// Calls `test` for all roles, with and without shared memory.
template <class Test>
void for_all_roles(Test test) {
  for (const Roles& roles : all_roles()) {
    for (const bool share_memory : {true, false}) test(roles, share_memory, RankRoles(roles, world().size()));
  }
}

}  // namespace tw::parameter_server::testing
