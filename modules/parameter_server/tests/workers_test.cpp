// SPDX-License-Identifier: Apache-2.0
// Workers that learn through servers, compared with their formulas in one process. Ranks take turns, so that the order of events is known.
#include "workers.hpp"

#include <array>
#include <atomic>

namespace tw::parameter_server {
namespace workers_test {

using namespace testing;

TEST(Downpour, IsItsFormula) {
  for_all_roles([](const Roles& roles, bool share_memory, const RankRoles& rank_roles) {
    const int mine = rank_roles.worker_of(world().rank());
    for (DownpourOptions o : {DownpourOptions{}, DownpourOptions{.push_interval = 2, .pull_interval = 3},
                              DownpourOptions{.push_interval = 3, .pull_interval = 2, .initial_delay = 2},
                              DownpourOptions{.push_interval = 1, .pull_interval = 3, .prefetch_lead = 2}}) {
      o.roles = roles;
      o.share_memory = share_memory;
      const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
      torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
      Downpour worker(world(), parameters, o);
      // All workers, simulated here.
      at::Tensor c = flat(parameters_from(0.5));
      std::vector<at::Tensor> x(static_cast<size_t>(rank_roles.workers()), c);
      std::vector<at::Tensor> g(x.size(), torch::zeros_like(c));
      std::vector<at::Tensor> fetched(x.size());
      for (int step = 1; step <= 7; ++step) {
        in_turns(worker, rank_roles, [&] {
          set_gradients(parameters, mine);
          sgd.step();
          worker.step();
        });
        for (size_t w = 0; w < x.size(); ++w) {
          const at::Tensor gradient = gradient_at(x[w], static_cast<int>(w));
          g[w] = g[w] + gradient;
          x[w] = x[w] - lr * gradient;
          const int64_t shared = step - o.initial_delay;
          if (shared <= 0) continue;
          if (shared % o.push_interval == 0) {
            c = c - lr * g[w];
            g[w] = torch::zeros_like(c);
          }
          if ((shared + o.prefetch_lead) % o.pull_interval == 0) fetched[w] = c;
          if (shared % o.pull_interval == 0 && fetched[w].defined()) x[w] = fetched[w];
        }
        if (mine < 0) continue;
        EXPECT_TRUE(flat(parameters).allclose(x[static_cast<size_t>(mine)], 0, tolerance)) << "step " << step;
      }
      worker.finish();
      for (const at::Tensor& each : g) c = c - lr * each;
      EXPECT_TRUE(flat(parameters).allclose(c, 0, tolerance));
    }
  });
}

/// One after the other, so that a worker's parameters lag by all pushes of the others since its last one.
TEST(Downpour, KnowsHowOldItsParametersAre) {
  for (const Roles& roles : all_roles()) {
    const RankRoles rank_roles(roles, world().size());
    const std::vector<at::Tensor> parameters = parameters_from(0.5);
    Downpour worker(world(), parameters, {.roles = roles});
    constexpr int steps = 5;
    for (int step = 0; step < steps; ++step) {
      in_turns(worker, rank_roles, [&] {
        set_gradients(parameters, 0);
        worker.step();
      });
    }
    const Traffic traffic = worker.traffic();
    worker.finish();
    if (rank_roles.worker_of(world().rank()) < 0 || worker.group().rank() != 0) continue;
    EXPECT_EQ(traffic.pulls, 1 + steps);
    std::array<int64_t, std::tuple_size_v<decltype(traffic.staleness)>> expected{};
    ++expected[static_cast<size_t>(rank_roles.worker_of(world().rank()))];  // in the first step: the workers before it
    expected[static_cast<size_t>(rank_roles.workers() - 1)] += traffic.pushes - 1;
    EXPECT_EQ(traffic.staleness, expected);
    EXPECT_EQ(traffic.pushes, steps);
  }
}

TEST(Downpour, LetsServersFollowARule) {
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  Downpour worker(world(), parameters, {.rule = {rules::adagrad({.lr = lr})}});
  const at::Tensor reference = flat(parameters).clone().requires_grad_();
  torch::optim::Adagrad adagrad({reference}, torch::optim::AdagradOptions(lr));
  for (int step = 0; step < 3; ++step) {
    in_turns(worker, RankRoles({}, world().size()), [&] {
      set_gradients(parameters, 0);
      worker.step();
    });
    // A single worker takes turns with itself: this is then Adagrad.
    reference.mutable_grad() = gradient_at(reference, 0);
    adagrad.step();
    if (world().size() == 1) {
      EXPECT_TRUE(flat(parameters).allclose(reference.detach(), 0, tolerance));
    }
  }
  worker.finish();
}

TEST(ElasticAveraging, IsItsFormulaAndMovesTheCentre) {
  for_all_roles([](const Roles& roles, bool share_memory, const RankRoles& rank_roles) {
    const int mine = rank_roles.worker_of(world().rank());
    const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
    ElasticAveraging elastic(world(), parameters, {.period = 2, .beta = 0.8, .roles = roles, .share_memory = share_memory});
    const double alpha = 0.8 / rank_roles.workers();
    EXPECT_DOUBLE_EQ(elastic.alpha(), alpha);
    at::Tensor c = flat(parameters_from(0.5));
    const at::Tensor start = c.clone();
    std::vector<at::Tensor> x(static_cast<size_t>(rank_roles.workers()), c);
    torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
    for (int step = 1; step <= 6; ++step) {
      in_turns(elastic, rank_roles, [&] {
        set_gradients(parameters, mine);
        sgd.step();
        EXPECT_EQ(elastic.step(), step % 2 == 0);
      });
      for (size_t w = 0; w < x.size(); ++w) {
        x[w] = x[w] - lr * gradient_at(x[w], static_cast<int>(w));
        if (step % 2 != 0) continue;
        const at::Tensor d = c - x[w];
        x[w] = x[w] + alpha * d;
        c = c - alpha * d;
      }
      if (mine >= 0) {
        EXPECT_TRUE(flat(parameters).allclose(x[static_cast<size_t>(mine)], 0, tolerance)) << "step " << step;
      }
    }
    EXPECT_GT((c - start).abs().min().item<double>(), 0.1);  // six steps of lr 0.1 from 2 to 4 away from the goal
    elastic.finish();
    EXPECT_TRUE(flat(parameters).allclose(c, 0, tolerance));
  });
}

TEST(StaleSynchronous, IsItsFormula) {
  for (const Roles& roles : all_roles()) {  // through memory, where a clock is read without delay
    const RankRoles rank_roles(roles, world().size());
    const int mine = rank_roles.worker_of(world().rank());
    for (const int64_t staleness : {1, 3}) {  // with 0 no worker could proceed in its turn
      const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
      StaleSynchronous bounded(world(), parameters, {.staleness = staleness, .roles = roles});
      torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
      at::Tensor c = flat(parameters_from(0.5));
      const auto workers = static_cast<size_t>(rank_roles.workers());
      std::vector<at::Tensor> x(workers, c);
      std::vector<int64_t> clocks(workers, 0);
      std::vector<int64_t> seen(workers, 0);
      for (int64_t step = 1; step <= 9; ++step) {
        std::vector<bool> pulls(workers);
        for (size_t w = 0; w < workers; ++w) {
          const at::Tensor update = -lr * gradient_at(x[w], static_cast<int>(w));
          x[w] = x[w] + update;
          c = c + update;
          clocks[w] = step;
          pulls[w] = seen[w] < step - staleness;
          if (!pulls[w]) continue;
          x[w] = c;
          seen[w] = *std::min_element(clocks.begin(), clocks.end());
        }
        in_turns(bounded, rank_roles, [&] {
          set_gradients(parameters, mine);
          sgd.step();
          EXPECT_EQ(bounded.step(), pulls[static_cast<size_t>(mine)]) << "step " << step;
        });
        if (mine >= 0) {
          EXPECT_TRUE(flat(parameters).allclose(x[static_cast<size_t>(mine)], 0, tolerance)) << "step " << step;
        }
      }
      bounded.finish();
      EXPECT_TRUE(flat(parameters).allclose(c, 0, tolerance));
    }
  }
}

/// Each worker records its current step. None may finish a step that is more than s ahead of the slowest. Workers have different numbers of steps, of
/// different lengths.
TEST(StaleSynchronous, BoundsHowFarAnyoneIsAhead) {
  for_all_roles([](const Roles& roles, bool share_memory, const RankRoles& rank_roles) {
    const int mine = rank_roles.worker_of(world().rank());
    for (const int64_t staleness : {0, 2}) {
      const std::vector<at::Tensor> parameters = parameters_from(0.5);
      StaleSynchronous bounded(world(), parameters, {.staleness = staleness, .roles = roles, .share_memory = share_memory});
      const at::Tensor steps = node_tensor(world(), {rank_roles.workers()}, at::kLong);
      auto* in_step = steps.data_ptr<int64_t>();
      barrier(world());
      const int64_t own = mine < 0 ? 0 : 40 + 20 * mine;
      for (int64_t step = 1; step <= own; ++step) {
        for (int64_t work = 0; work < 20000 * (rank_roles.workers() - mine); ++work) std::atomic_signal_fence(std::memory_order_seq_cst);
        std::atomic_ref(in_step[mine]).store(step);
        bounded.step();
        for (int other = 0; other < rank_roles.workers(); ++other) {
          const int64_t at = std::atomic_ref(in_step[other]).load();
          EXPECT_TRUE(at >= step - staleness || at == 40 + 20 * other) << "worker " << other << " at " << at << ", this one after " << step;
        }
      }
      bounded.finish();
    }
  });
}

}  // namespace workers_test
}  // namespace tw::parameter_server
