// SPDX-License-Identifier: Apache-2.0
// Workers that learn by way of servers, against their formulas in one process: ranks take turns here, so that the order of what happens is known.
#include <torch/torch.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>
#include <tw/comm.hpp>
#include <tw/parameter_server.hpp>

#include "message_of.hpp"
#include "mpi_test.hpp"

namespace tw::parameter_server {
namespace {

using tw::testing::world;

constexpr double lr = 0.1;
// Some 30 operations on numbers below 4 in float64, each rounded by 2^-53 of them.
constexpr double tolerance = 30 * 4 * 0x1p-53;

std::vector<at::Tensor> parameters_from(double first) {
  return {torch::linspace(first, 1, 6, at::kDouble).view({2, 3}).requires_grad_(), torch::linspace(-1, first, 5, at::kDouble).requires_grad_()};
}

at::Tensor flat(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& each : parameters) all.push_back(each.detach().flatten());
  return torch::cat(all);
}

/// That of |x - 3|^2 / 2, from which workers on different ranks learn differently.
at::Tensor gradient_at(const at::Tensor& x, int rank) { return (x.detach() - 3) * (1 + 0.5 * rank); }

void set_gradients(const std::vector<at::Tensor>& parameters, int rank) {
  for (const at::Tensor& each : parameters) each.mutable_grad() = gradient_at(each, rank);
}

/// Runs `turn` on one worker after the other, each when what the one before has pushed is applied; ranks that only serve have none.
template <class Worker, class Turn>
void in_turns(const Worker& worker, const Crew& crew, Turn turn) {
  const int mine = crew.worker_of(world().rank());
  for (int now = 0; now < crew.workers(); ++now) {
    if (now == mine) {
      turn();
      while (crew.leaders()[static_cast<size_t>(mine)] == world().rank() && worker.centre().under_way() > 0) progress(world());
    }
    barrier(world());
  }
}

/// What this number of ranks can be.
std::vector<Roles> all_roles() {
  const int n = world().size();
  std::vector<Roles> all{{}};
  if (n > 1) all.push_back({.servers = {n - 1}, .dedicated = true});
  if (n % 2 == 0) all.push_back({.ranks_per_worker = 2});
  if (n % 2 == 0) all.push_back({.ranks_per_worker = 2, .servers = {1}});
  if (n == 3) all.push_back({.ranks_per_worker = 2, .servers = {0}, .dedicated = true});
  return all;
}

/// Each role of ranks, with memory that is shared and without.
template <class Test>
void for_all_roles(Test test) {
  for (const Roles& roles : all_roles()) {
    for (const bool share_memory : {true, false}) test(roles, share_memory, Crew(roles, world().size()));
  }
}

TEST(Downpour, IsItsFormula) {
  for_all_roles([](const Roles& roles, bool share_memory, const Crew& crew) {
    const int mine = crew.worker_of(world().rank());
    for (DownpourOptions o : {DownpourOptions{}, DownpourOptions{.push_interval = 2, .pull_interval = 3},
                              DownpourOptions{.push_interval = 3, .pull_interval = 2, .initial_delay = 2},
                              DownpourOptions{.push_interval = 1, .pull_interval = 3, .prefetch_lead = 2}}) {
      o.roles = roles;
      o.share_memory = share_memory;
      const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
      torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
      Downpour worker(world(), parameters, o);
      // All workers, here.
      at::Tensor c = flat(parameters_from(0.5));
      std::vector<at::Tensor> x(static_cast<size_t>(crew.workers()), c);
      std::vector<at::Tensor> g(x.size(), torch::zeros_like(c));
      std::vector<at::Tensor> fetched(x.size());
      for (int step = 1; step <= 7; ++step) {
        in_turns(worker, crew, [&] {
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

/// One after the other, so that each worker's parameters are as old as all the others' pushes behind its own.
TEST(Downpour, KnowsHowOldItsParametersAre) {
  for (const Roles& roles : all_roles()) {
    const Crew crew(roles, world().size());
    const std::vector<at::Tensor> parameters = parameters_from(0.5);
    Downpour worker(world(), parameters, {.roles = roles});
    constexpr int steps = 5;
    for (int step = 0; step < steps; ++step) {
      in_turns(worker, crew, [&] {
        set_gradients(parameters, 0);
        worker.step();
      });
    }
    const Traffic traffic = worker.traffic();
    worker.finish();
    if (crew.worker_of(world().rank()) < 0 || worker.group().rank() != 0) continue;
    EXPECT_EQ(traffic.pulls, 1 + steps);
    std::array<int64_t, std::tuple_size_v<decltype(traffic.staleness)>> expected{};
    ++expected[static_cast<size_t>(crew.worker_of(world().rank()))];  // in the first step, of those before it
    expected[static_cast<size_t>(crew.workers() - 1)] += traffic.pushes - 1;
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
    in_turns(worker, Crew({}, world().size()), [&] {
      set_gradients(parameters, 0);
      worker.step();
    });
    // One worker alone takes turns with itself: then this is Adagrad.
    reference.mutable_grad() = gradient_at(reference, 0);
    adagrad.step();
    if (world().size() == 1) {
      EXPECT_TRUE(flat(parameters).allclose(reference.detach(), 0, tolerance));
    }
  }
  worker.finish();
}

TEST(ElasticAveraging, IsItsFormulaAndMovesTheCentre) {
  for_all_roles([](const Roles& roles, bool share_memory, const Crew& crew) {
    const int mine = crew.worker_of(world().rank());
    const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
    ElasticAveraging elastic(world(), parameters, {.period = 2, .beta = 0.8, .roles = roles, .share_memory = share_memory});
    const double alpha = 0.8 / crew.workers();
    EXPECT_DOUBLE_EQ(elastic.alpha(), alpha);
    at::Tensor c = flat(parameters_from(0.5));
    const at::Tensor start = c.clone();
    std::vector<at::Tensor> x(static_cast<size_t>(crew.workers()), c);
    torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
    for (int step = 1; step <= 6; ++step) {
      in_turns(elastic, crew, [&] {
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
  for (const Roles& roles : all_roles()) {  // through memory, where a clock is read as it is
    const Crew crew(roles, world().size());
    const int mine = crew.worker_of(world().rank());
    for (const int64_t staleness : {1, 3}) {  // with 0 nobody could go on in its turn
      const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
      StaleSynchronous bounded(world(), parameters, {.staleness = staleness, .roles = roles});
      torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
      at::Tensor c = flat(parameters_from(0.5));
      const auto workers = static_cast<size_t>(crew.workers());
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
        in_turns(bounded, crew, [&] {
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

/// Everybody writes which step it is in, and none may come out of a step that is more than s ahead of where all have got to. Workers have different
/// numbers of steps, of different lengths.
TEST(StaleSynchronous, BoundsHowFarAnyoneIsAhead) {
  for_all_roles([](const Roles& roles, bool share_memory, const Crew& crew) {
    const int mine = crew.worker_of(world().rank());
    for (const int64_t staleness : {0, 2}) {
      const std::vector<at::Tensor> parameters = parameters_from(0.5);
      StaleSynchronous bounded(world(), parameters, {.staleness = staleness, .roles = roles, .share_memory = share_memory});
      const at::Tensor steps = node_tensor(world(), {crew.workers()}, at::kLong);
      auto* in_step = steps.data_ptr<int64_t>();
      barrier(world());
      const int64_t own = mine < 0 ? 0 : 40 + 20 * mine;
      for (int64_t step = 1; step <= own; ++step) {
        for (int64_t work = 0; work < 20000 * (crew.workers() - mine); ++work) std::atomic_signal_fence(std::memory_order_seq_cst);
        std::atomic_ref(in_step[mine]).store(step);
        bounded.step();
        for (int other = 0; other < crew.workers(); ++other) {
          const int64_t at = std::atomic_ref(in_step[other]).load();
          EXPECT_TRUE(at >= step - staleness || at == 40 + 20 * other) << "worker " << other << " at " << at << ", this one behind " << step;
        }
      }
      bounded.finish();
    }
  });
}

TEST(SynchronousAveraging, IsAllReduceTraining) {
  for_all_roles([](const Roles& roles, bool share_memory, const Crew& crew) {
    const int mine = crew.worker_of(world().rank());
    const std::vector<at::Tensor> parameters = parameters_from(world().rank() == 0 ? 0.5 : 0.25);
    const std::vector<at::Tensor> reference = parameters_from(0.5);
    SynchronousAveraging average(world(), parameters, {.roles = roles, .share_memory = share_memory});
    const auto sgd_of = [](const std::vector<at::Tensor>& all) { return torch::optim::SGD(all, torch::optim::SGDOptions(lr).momentum(0.9)); };
    torch::optim::SGD ours = sgd_of(parameters);
    torch::optim::SGD theirs = sgd_of(reference);
    for (int step = 0; step < 6; ++step) {
      if (mine >= 0) {
        set_gradients(parameters, mine);
        average.step();
        ours.step();
      }
      set_gradients(reference, mine);
      for (const at::Tensor& each : reference) {
        if (mine < 0) each.grad().zero_();
        allreduce(world(), each.grad(), ReduceOp::sum);
        each.grad().div_(crew.workers() * roles.ranks_per_worker);
      }
      theirs.step();
      if (mine >= 0) {
        EXPECT_TRUE(flat(parameters).allclose(flat(reference), 0, tolerance)) << "step " << step;
      }
    }
    average.finish();
  });
}

TEST(SynchronousAveraging, SaysWhoHasLeft) {
  if (world().size() == 1) return;
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  SynchronousAveraging average(world(), parameters);
  const int last = world().size() - 1;
  set_gradients(parameters, 0);
  average.step();
  if (world().rank() != last) {
    const std::string message = testing::message_of([&] { average.step(); });
    EXPECT_NE(message.find(concat("worker ", last, " (rank ", last, ") has left after 1 steps; this one is at 2")), std::string::npos) << message;
  }
  average.finish();
}

/// The last worker leaves before its first step, and the others make all of theirs.
TEST(Workers, WhoLeavesEarlyHoldsUpNobody) {
  if (world().size() == 1) return;
  const bool leaves = world().rank() == world().size() - 1;
  const auto train = [&](Worker& worker, const std::vector<at::Tensor>& parameters) {
    torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
    for (int step = 0; step < 20 && !leaves; ++step) {
      set_gradients(parameters, 0);
      sgd.step();
      worker.step();
    }
    worker.finish();
    EXPECT_LT((flat(parameters) - 3).abs().max().item<double>(), 2);  // from up to 4 away
  };
  for (const bool share_memory : {true, false}) {
    const std::vector<at::Tensor> parameters = parameters_from(0.5);
    Downpour downpour(world(), parameters, {.share_memory = share_memory});
    train(downpour, parameters);
    ElasticAveraging elastic(world(), parameters, {.period = 1, .share_memory = share_memory});
    train(elastic, parameters);
    StaleSynchronous bounded(world(), parameters, {.staleness = 0, .share_memory = share_memory});
    train(bounded, parameters);
  }
}

/// What this process writes to its standard error, while it writes it.
class StandardError {
 public:
  StandardError() : before_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe(ends_.data()), 0);
    dup2(ends_[1], STDERR_FILENO);
    close(ends_[1]);
  }
  ~StandardError() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(ends_[0]);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  /// Returns when `text` was written.
  void wait_for(const std::string& text) const {
    std::string written;
    std::array<char, 256> some{};
    while (written.find(text) == std::string::npos) written.append(some.data(), static_cast<size_t>(read(ends_[0], some.data(), some.size())));
  }

 private:
  int before_;
  std::array<int, 2> ends_{};
};

/// The last worker makes its step only when the first has said that it waits for it.
TEST(StaleSynchronous, SaysWhomItWaitsFor) {
  if (world().size() == 1) return;
  const int last = world().size() - 1;
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  StaleSynchronous bounded(world(), parameters, {.staleness = 0, .warn_after = Seconds(0)});
  const at::Tensor shared = node_tensor(world(), {1}, at::kLong);
  const std::atomic_ref<int64_t> said(*shared.data_ptr<int64_t>());
  std::optional<StandardError> written;
  std::thread reader;
  if (world().rank() == 0) {
    written.emplace();
    reader = std::thread([&] {
      written->wait_for(concat("worker ", last, " (rank ", last, ") at 0"));
      said.store(1);
    });
  }
  if (world().rank() == last) {
    while (said.load() == 0) std::this_thread::yield();
  }
  set_gradients(parameters, 0);
  bounded.step();
  if (reader.joinable()) reader.join();
  written.reset();
  bounded.finish();
}

/// 'T': stopped.
char state_of_process(int64_t id) {
  std::ifstream in(concat("/proc/", id, "/stat"));
  std::string number;
  std::string name;
  char state = '?';
  in >> number >> name >> state;
  return state;
}

/// The last rank stops, and goes on only when the others have made all their steps.
TEST(Workers, WhoIsStoppedHoldsUpNobody) {
  if (world().size() == 1) return;
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
  Downpour worker(world(), parameters);
  const at::Tensor shared = node_tensor(world(), {2}, at::kLong);  // who is stopped; how many have made their steps
  auto* numbers = shared.data_ptr<int64_t>();
  const bool stops = world().rank() == world().size() - 1;
  if (stops) numbers[0] = getpid();
  barrier(world());
  if (stops) std::raise(SIGSTOP);
  for (int step = 0; step < 20; ++step) {
    set_gradients(parameters, 0);
    sgd.step();
    worker.step();
  }
  if (!stops && std::atomic_ref(numbers[1]).fetch_add(1) == world().size() - 2) {
    while (state_of_process(numbers[0]) != 'T') std::this_thread::yield();
    kill(static_cast<pid_t>(numbers[0]), SIGCONT);
  }
  worker.finish();
  EXPECT_EQ(worker.traffic().pushes, 21);
}

/// What was restored is gone on with, by all, whatever their clocks said before.
TEST(Workers, GoOnFromACheckpoint) {
  for_all_roles([](const Roles& roles, bool share_memory, const Crew& crew) {
    const std::vector<at::Tensor> parameters = parameters_from(0.5);
    torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
    StaleSynchronous bounded(world(), parameters, {.staleness = 0, .roles = roles, .share_memory = share_memory});
    const auto train = [&](int steps) {
      for (int step = 0; step < steps && crew.worker_of(world().rank()) >= 0; ++step) {
        set_gradients(parameters, 0);
        sgd.step();
        bounded.step();
      }
      bounded.finish();
      return flat(parameters).clone();
    };
    train(2);
    const at::Tensor then = flat(parameters).clone();
    const std::vector<NamedShard> kept = bounded.shards("centre");
    barrier(world());                               // or workers would push before servers have copied
    const bool reproducible = crew.workers() == 1;  // others push at times of their own
    const at::Tensor expected = train(3);
    EXPECT_FALSE(expected.equal(then));
    int64_t at = 0;
    for (const at::Tensor& each : parameters) {
      const torch::NoGradGuard no_grad;
      each.flatten().copy_(then.narrow(0, at, each.numel()));
      at += each.numel();
    }
    bounded.restore(kept);
    EXPECT_TRUE(flat(parameters).equal(then));
    const at::Tensor again = train(3);
    if (reproducible) {
      EXPECT_TRUE(again.equal(expected));
    }
    // Each update goes a tenth of the way to 3 from parameters that lack the others' updates of this step at most.
    EXPECT_TRUE(((again - 3).abs() < (then - 3).abs()).all().item<bool>());
  });
}

TEST(Workers, RefuseWrongOptions) {
  EXPECT_THROW(Downpour(world(), parameters_from(0), {.push_interval = 0}), ContractError);
  EXPECT_THROW(Downpour(world(), parameters_from(0), {.pull_interval = 2, .prefetch_lead = 3}), ContractError);
  EXPECT_THROW(ElasticAveraging(world(), parameters_from(0), {.period = 0}), ContractError);
  EXPECT_THROW(ElasticAveraging(world(), {}, {}), ContractError);
  EXPECT_THROW(StaleSynchronous(world(), parameters_from(0), {.staleness = -1}), ContractError);
  EXPECT_THROW(SynchronousAveraging(world(), parameters_from(0), {.roles = {.ranks_per_worker = 5}}), ContractError);
}

}  // namespace
}  // namespace tw::parameter_server
