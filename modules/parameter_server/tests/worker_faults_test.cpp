// SPDX-License-Identifier: Apache-2.0
// Workers that leave, are slow, are stopped, resume from a checkpoint, or have wrong options.
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

#include "message_of.hpp"
#include "workers.hpp"

namespace tw::parameter_server {
namespace worker_faults_test {

using namespace testing;

/// The last worker leaves before its first step; the others complete all of theirs.
TW_TEST_ON(Workers, WhoLeavesEarlyHoldsUpNobody, {.least = 2}) {
  const bool leaves = world().rank() == world().size() - 1;
  const auto train = [&](Worker& worker, const std::vector<at::Tensor>& parameters) {
    torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
    for (int step = 0; step < 20 && !leaves; ++step) {
      set_gradients(parameters, 0);
      sgd.step();
      worker.step();
    }
    worker.finish();
    EXPECT_LT((flat(parameters) - 3).abs().max().item<double>(), 2);  // starts up to 4 away
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

// A centre in float64 would silently continue with rounded values.
TEST(Workers, RefuseParametersThatWereConvertedBehindThem) {
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  Downpour downpour(world(), parameters);
  at::Tensor first = parameters.front();
  const auto own = first.scalar_type();
  first.set_data(first.detach().to(at::kBFloat16));
  set_gradients(parameters, 0);
  const std::string message = tw::testing::message_of<ContractError>([&] { downpour.step(); });
  EXPECT_NE(message.find("parameter 0 is bfloat16 and was"), std::string::npos) << message;
  first.set_data(torch::zeros({4, 3}, own));
  const std::string larger = tw::testing::message_of<ContractError>([&] { downpour.step(); });
  EXPECT_NE(larger.find("parameter 0 has 12 elements and had 6"), std::string::npos) << larger;
  first.set_data(torch::zeros({2, 3}, own));
  downpour.finish();
}

/// Captures this process's standard error while it is written.
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

  /// Returns once `text` has been written.
  void wait_for(const std::string& text) const {
    std::string written;
    std::array<char, 256> some{};
    while (written.find(text) == std::string::npos) written.append(some.data(), static_cast<size_t>(read(ends_[0], some.data(), some.size())));
  }

 private:
  int before_;
  std::array<int, 2> ends_{};
};

/// The last worker makes its step only after the first has reported that it waits for it.
TW_TEST_ON(StaleSynchronous, SaysWhomItWaitsFor, {.least = 2}) {
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
      written->wait_for(concat("worker ", last, " (rank ", last, ") at clock 0"));
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

/// The last rank stops, and resumes only after the others have made all their steps.
TW_TEST_ON(Workers, WhoIsStoppedHoldsUpNobody, {.least = 2}) {
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
  Downpour worker(world(), parameters);
  const at::Tensor shared = node_tensor(world(), {2}, at::kLong);  // pid of the stopped rank; number of ranks that have made their steps
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

/// All workers resume from the restored values, whatever their clocks were before.
TEST(Workers, GoOnFromACheckpoint) {
  for_all_roles([](const Roles& roles, bool share_memory, const RankRoles& rank_roles) {
    const std::vector<at::Tensor> parameters = parameters_from(0.5);
    torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
    StaleSynchronous bounded(world(), parameters, {.staleness = 0, .roles = roles, .share_memory = share_memory});
    const auto train = [&](int steps) {
      for (int step = 0; step < steps && rank_roles.worker_of(world().rank()) >= 0; ++step) {
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
    barrier(world());                                     // otherwise workers would push before servers have copied
    const bool reproducible = rank_roles.workers() == 1;  // several workers push at varying times
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
    // Each update moves a tenth of the way to 3, from parameters that lack at most the others' updates of this step.
    EXPECT_TRUE(((again - 3).abs() < (then - 3).abs()).all().item<bool>());
  });
}

/// All workers, and their servers' values, return to the first step. A worker that makes fewer steps delays none of the others.
TW_TEST_ON(Workers, GoBackWhileOthersWaitForAStep, {.least = 2}) {
  const bool first = world().rank() == 0;
  const std::vector<at::Tensor> parameters = parameters_from(0.5);
  StaleSynchronous bounded(world(), parameters, {.staleness = 0});
  const std::vector<NamedShard> kept = bounded.shards("centre");
  set_gradients(parameters, 0);
  if (first) bounded.step();  // returns when the others have made this step, or make none
  bounded.restore(kept);
  EXPECT_TRUE(flat(parameters).equal(flat(parameters_from(0.5)))) << "gone back";
  bounded.step();
  bounded.finish();
}

/// A single worker resumes in the middle of its period as if uninterrupted.
TEST(Workers, GoOnInTheMiddleOfAPeriod) {
  const Communicator self = world().split(world().rank(), 0);
  const auto expect_same = [&](const std::string& name, const auto& make) {
    for (int stop = 1; stop < 8; ++stop) {
      const auto train = [&](Worker& worker, torch::optim::SGD& sgd, const std::vector<at::Tensor>& parameters, int from, int to) {
        for (int step = from; step < to; ++step) {
          for (const at::Tensor& each : parameters) each.mutable_grad() = gradient_at(each, 0) * (1 + 0.1 * step);
          sgd.step();
          worker.step();
        }
      };
      const std::vector<at::Tensor> parameters = parameters_from(0.5);
      torch::optim::SGD sgd(parameters, torch::optim::SGDOptions(lr));
      const std::unique_ptr<Worker> worker = make(self, parameters);
      train(*worker, sgd, parameters, 0, stop);
      std::vector<NamedShard> kept = worker->shards("centre");
      for (NamedShard& each : kept) each.tensor = each.tensor.clone();
      const std::vector<at::Tensor> again = parameters_from(0);
      const std::unique_ptr<Worker> other = make(self, again);
      {
        const torch::NoGradGuard no_grad;
        for (size_t i = 0; i < again.size(); ++i) at::Tensor(again[i]).copy_(parameters[i]);
      }
      other->restore(kept);
      torch::optim::SGD same(again, torch::optim::SGDOptions(lr));
      train(*worker, sgd, parameters, stop, 12);
      train(*other, same, again, stop, 12);
      EXPECT_TRUE(flat(again).equal(flat(parameters))) << name << " after " << stop;
      worker->finish();
      other->finish();
      EXPECT_TRUE(flat(again).equal(flat(parameters))) << name << " after " << stop << ", at the end";
    }
  };
  using Parameters = std::vector<at::Tensor>;
  expect_same("elastic",
              [](const Communicator& comm, const Parameters& p) { return std::make_unique<ElasticAveraging>(comm, p, ElasticOptions{.period = 3}); });
  expect_same("bounded", [](const Communicator& comm, const Parameters& p) {
    return std::make_unique<StaleSynchronous>(comm, p, StaleSynchronousOptions{.staleness = 2});
  });
  expect_same("downpour", [](const Communicator& comm, const Parameters& p) {
    return std::make_unique<Downpour>(comm, p, DownpourOptions{.push_interval = 3, .pull_interval = 4, .initial_delay = 1});
  });
  expect_same("adagrad", [](const Communicator& comm, const Parameters& p) {
    return std::make_unique<Downpour>(comm, p,
                                      DownpourOptions{.push_interval = 3, .pull_interval = 3, .prefetch_lead = 3, .rule = {rules::adagrad()}});
  });
}

TEST(Workers, RefuseWrongOptions) {
  EXPECT_THROW(Downpour(world(), parameters_from(0), {.push_interval = 0}), ContractError);
  EXPECT_THROW(Downpour(world(), parameters_from(0), {.pull_interval = 2, .prefetch_lead = 3}), ContractError);
  EXPECT_THROW(ElasticAveraging(world(), parameters_from(0), {.period = 0}), ContractError);
  EXPECT_THROW(ElasticAveraging(world(), {}, {}), ContractError);
  EXPECT_THROW(StaleSynchronous(world(), parameters_from(0), {.staleness = -1}), ContractError);
  EXPECT_THROW(StaleSynchronous(world(), parameters_from(0), {.roles = {.ranks_per_worker = 5}}), ContractError);
}

/// Servers would mix up the elements of parameters that merely have equal counts.
TW_TEST_ON(Workers, RefuseParametersThatDifferBetweenRanks, {.least = 2}) {
  const auto expect_refused = [](const std::vector<at::Tensor>& odd, const std::string& has, const std::string& where) {
    for (int rank = 1; rank < world().size(); ++rank) {
      const std::vector<at::Tensor> parameters = world().rank() == rank ? odd : parameters_from(0.5);
      const std::string message = tw::testing::message_of<ContractError>([&] { Downpour(world(), parameters); });
      const std::string expected = concat("the parameters that workers train must be the same on all ranks of 'world/dup': rank ", rank, " has ", has,
                                          " where rank 0 has ", where);
      EXPECT_NE(message.find(expected), std::string::npos) << message << "\n  expected " << expected;
    }
  };
  const auto zeros = [](at::IntArrayRef sizes, at::ScalarType type = at::kDouble) { return torch::zeros(sizes, type).requires_grad_(); };
  expect_refused({zeros({3, 2}), zeros({5})}, "'parameter 0 float64 [3, 2]'", "'parameter 0 float64 [2, 3]'");
  expect_refused({zeros({2, 3}), zeros({5}, at::kDouble), zeros({0})}, "'parameter 2 float64 [0]'", "nothing more");
  expect_refused({zeros({2, 3}, at::kFloat), zeros({5}, at::kFloat)}, "'parameter 0 float32 [2, 3]'", "'parameter 0 float64 [2, 3]'");
}

TW_TEST_ON(Workers, RefuseWhatIsWrongOnOneRankAlone, {.least = 2}) {
  const int last = world().size() - 1;
  const bool odd = world().rank() == last;
  const auto expect_refused = [&](const std::function<void()>& make, const std::string& why) {
    const std::string message = tw::testing::message_of<ContractError>(make);
    const std::string expected = concat("making a parameter-server worker failed on rank ", last, " of 'world/dup': ", why);
    EXPECT_EQ(message.find(expected), 0U) << message << "\n  expected " << expected;
  };
  expect_refused([&] { Downpour(world(), parameters_from(0), {.push_interval = odd ? 0 : 1}); }, "push_interval must be at least 1, got 0");
  expect_refused([&] { ElasticAveraging(world(), parameters_from(0), {.period = odd ? 0 : 1}); }, "period must be at least 1, got 0");
  expect_refused([&] { StaleSynchronous(world(), parameters_from(0), {.staleness = odd ? -1 : 0}); }, "staleness must be at least 0, got -1");
  expect_refused([&] { StaleSynchronous(world(), parameters_from(0), {.warn_after = Seconds(odd ? -1 : 1)}); },
                 "warn_after must be at least 0, got -1");
  expect_refused([&] { Downpour(world(), odd ? std::vector<at::Tensor>() : parameters_from(0)); }, "a worker needs at least one parameter to train");
}

}  // namespace worker_faults_test
}  // namespace tw::parameter_server
