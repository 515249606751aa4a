// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <csignal>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

namespace trainer_test {

using tw::testing::make_mlp;
using tw::testing::make_regressor;
using tw::testing::quick;
using tw::testing::rows;
using tw::testing::squares;
using tw::testing::world;
using tw::train::Trainer;

/// Records the hooks called, in order.
struct Recorder : tw::train::Hook {
  void on_start(tw::train::State&) override { events += "S"; }
  void on_start_epoch(tw::train::State&) override { events += "["; }
  void on_sample(tw::train::State& state) override {
    events += "s";
    samples_here += state.batch.size();
  }
  void on_forward(tw::train::State& state) override {
    events += "f";
    EXPECT_TRUE(state.loss.defined());
  }
  void on_backward(tw::train::State& state) override {
    events += "b";
    EXPECT_TRUE(state.model.parameters.front().tensor.grad().defined());
  }
  void on_update(tw::train::State& state) override {
    events += "u";
    last_samples = state.samples;
    rates.push_back(state.learning_rate);
  }
  void on_end_epoch(tw::train::State&, const tw::train::EpochReport& report) override {
    events += "]";
    epochs.push_back(report);
  }
  void on_end(tw::train::State&, const tw::train::Summary&) override { events += "E"; }

  std::string events;
  int64_t samples_here = 0;
  int64_t last_samples = 0;
  std::vector<double> rates;
  std::vector<tw::train::EpochReport> epochs;
};

TEST(Trainer, LearnsAndReports) {
  const auto model = make_mlp();
  torch::optim::Adam adam(model.tensors(), 3e-3);
  const auto train_set = rows(301);
  const auto test_set = rows(100);
  auto options = quick("learns");
  options.epochs = 8;
  options.batch_size = 20;
  options.seed = 1;
  Trainer trainer(world(), model, adam, tw::train::classification(), train_set, test_set, options, &test_set);
  Recorder recorder;
  trainer.add(recorder);
  const auto summary = trainer.run();
  EXPECT_GE(tw::train::figure(summary.test, "accuracy"), 0.95);
  EXPECT_EQ(summary.ranks, world().size());
  EXPECT_EQ(summary.parameters, 784 * 32 + 32 + 320 + 10);
  EXPECT_GT(summary.samples_per_s, 0);
  EXPECT_GT(summary.exposed_comm_share, 0);
  EXPECT_LT(summary.exposed_comm_share, 1);
  EXPECT_TRUE(summary.finished);
  const int64_t steps_per_epoch = (301 + 20 * world().size() - 1) / (20 * world().size());
  EXPECT_EQ(summary.steps, 8 * steps_per_epoch);
  EXPECT_EQ(recorder.last_samples, 301);
  ASSERT_EQ(recorder.epochs.size(), 8U);
  EXPECT_LT(recorder.epochs.back().train_loss, recorder.epochs.front().train_loss);
  EXPECT_GT(summary.best_epoch, 0);
  const at::Tensor all = torch::full({1}, recorder.samples_here, torch::kLong);
  tw::allreduce(world(), all, tw::ReduceOp::sum);
  EXPECT_EQ(all.item<int64_t>(), 8 * 301);
}

TEST(Trainer, CallsHooksInTheOrderOfAStep) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto train_set = rows(8);
  auto options = quick("hooks");
  options.epochs = 2;
  options.global_batch = 4;
  options.accumulation = 2;
  Trainer trainer(world(), model, sgd, tw::train::classification(), train_set, train_set, options);
  Recorder recorder;
  trainer.add(recorder);
  trainer.run();
  EXPECT_EQ(recorder.events, "S[sfsfbusfsfbu][sfsfbusfsfbu]E");
}

TEST(Trainer, EvaluatesExactlyOverUnevenRanks) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto train_set = rows(50);
  const auto test_set = rows(37);
  auto options = quick("evaluates");
  options.batch_size = 7;
  const auto summary = Trainer(world(), model, sgd, tw::train::classification(), train_set, test_set, options).run();
  std::vector<int64_t> all(37);
  std::iota(all.begin(), all.end(), int64_t{0});
  const auto batch = test_set.batch(all);
  const torch::NoGradGuard no_grad;
  const auto logits = model.forward(batch.inputs);
  EXPECT_DOUBLE_EQ(tw::train::figure(summary.test, "accuracy"), logits.argmax(1).eq(batch.targets).sum().item<double>() / 37);
  // float sums of 37 terms of about 2
  EXPECT_NEAR(tw::train::figure(summary.test, "loss"), torch::cross_entropy_loss(logits, batch.targets).item<double>(), 1e-5);
}

TEST(Trainer, ReportsTheTrainingLossOfOneProcess) {
  // With a learning rate of 1e-300 nothing moves, so the mean over the epoch is the model's loss, on any number of ranks and with uneven shares.
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 1e-300);
  const auto data = squares(41);
  auto options = quick("loss");
  options.global_batch = 12;
  options.accumulation = 3;
  Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
  Recorder recorder;
  trainer.add(recorder);
  const auto summary = trainer.run();
  const torch::NoGradGuard no_grad;
  const double expected = torch::mse_loss(model.forward(data.inputs()), data.targets()).item<double>();
  EXPECT_NEAR(recorder.epochs.at(0).train_loss, expected, 1e-14 * expected * 41);  // 41 roundings at most
  EXPECT_NEAR(tw::train::figure(summary.test, "loss"), expected, 1e-14 * expected * 41);
  EXPECT_NEAR(tw::train::figure(summary.test, "mae"), (model.forward(data.inputs()) - data.targets()).abs().mean().item<double>(), 1e-13);
}

TEST(Trainer, AccumulationChangesNothingButMemory) {
  std::vector<at::Tensor> results[2];
  for (const int64_t accumulation : {1, 4}) {
    const auto model = make_regressor(0);
    torch::optim::Adam adam(model.tensors(), 1e-2);
    const auto data = squares(50);
    auto options = quick("accumulates");
    options.epochs = 4;
    options.global_batch = 12;  // 50 = 4 * 12 + 2: the last update has fewer samples than passes
    options.accumulation = accumulation;
    Trainer(world(), model, adam, tw::train::regression(), data, data, options).run();
    results[accumulation > 1 ? 1 : 0] = tw::testing::copies(model);
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    // The same sums in a different order: 20 updates of some 1e-16 each, amplified by the quotient of Adam.
    EXPECT_LT((results[0][i] - results[1][i]).norm().item<double>(), 1e-11 * results[0][i].norm().item<double>()) << i;
  }
}

TEST(Trainer, LetsRanksWithoutSamplesTakePartWhateverTheModel) {
  // Batch normalisation rejects an empty batch, so a rank without samples must not run the model.
  torch::nn::Sequential net(torch::nn::Conv2d(1, 2, 5), torch::nn::BatchNorm2d(2), torch::nn::Flatten(), torch::nn::Linear(2 * 24 * 24, 10));
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = rows(2);
  auto options = quick("few");
  options.epochs = 2;
  options.batch_size = 2;
  const auto summary = Trainer(world(), model, sgd, tw::train::classification(), data, data, options).run();
  EXPECT_EQ(summary.steps, 2);
  for (const auto& parameter : model.parameters) EXPECT_TRUE(tw::compare_replicas(world(), parameter.tensor.detach()).identical) << parameter.name;
  for (const auto& buffer : model.buffers) EXPECT_TRUE(tw::compare_replicas(world(), buffer.tensor).identical) << buffer.name;
}

TEST(Trainer, WorksWithMoreRanksThanSamples) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = rows(1);
  auto options = quick("one");
  options.epochs = 2;
  options.batch_size = 4;
  const auto summary = Trainer(world(), model, sgd, tw::train::classification(), data, data, options).run();
  EXPECT_EQ(summary.steps, 2);
  for (const auto& parameter : model.parameters) EXPECT_TRUE(torch::isfinite(parameter.tensor).all().item<bool>());
}

/// Delays the beginning of one rank's epoch.
struct Latecomer : tw::train::Hook {
  void on_start_epoch(tw::train::State&) override {
    if (world().rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
};

// Rank 0's update takes milliseconds, and the others wait 300 for it: by its clock they wait longer than training lasts.
TEST(Trainer, NobodyWaitsForMoreThanAllOfTheTime) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = rows(8);
  Trainer trainer(world(), model, sgd, tw::train::classification(), data, data, quick("waits"));
  Latecomer latecomer;
  trainer.add(latecomer);
  const auto summary = trainer.run();
  EXPECT_LE(summary.exposed_comm_share, 1);
  EXPECT_LE(summary.waited_for_data_share, 1);
}

/// Makes every update slower on one rank.
struct Dawdler : tw::train::Hook {
  void on_update(tw::train::State& state) override {
    if (state.comm.rank() == state.comm.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
};

// An update takes some milliseconds, so the others wait for the last rank nearly all the time.
TEST(Trainer, NamesTheRankThatTheOthersWaitFor) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = rows(40);
  auto options = quick("dawdles");
  options.epochs = 1;
  options.global_batch = 10;
  Trainer trainer(world(), model, sgd, tw::train::classification(), data, data, options);
  Dawdler dawdler;
  trainer.add(dawdler);
  const auto summary = trainer.run();
  ASSERT_EQ(summary.slow_rank.has_value(), world().size() > 1);
  if (!summary.slow_rank) return;
  EXPECT_EQ(summary.slow_rank->rank, world().size() - 1);
  EXPECT_EQ(summary.slow_rank->host, tw::find_topology(world()).node);
  EXPECT_GT(summary.slow_rank->share, 0.4);  // they wait in 3 of 4 updates, and for the end; a busy machine takes a part of it
  EXPECT_LE(summary.slow_rank->share, 1);
}

TEST(Trainer, MovesTheLearningRate) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.5);
  const auto data = rows(8);
  auto options = quick("rate");
  options.global_batch = 2;
  options.schedule = {.warm_up_steps = 2, .base_batch = 1};
  Trainer trainer(world(), model, sgd, tw::train::classification(), data, data, options);
  Recorder recorder;
  trainer.add(recorder);
  trainer.run();
  EXPECT_EQ(recorder.rates, (std::vector<double>{0.5, 1.0, 1.0, 1.0}));
}

TEST(Trainer, StopsEarlyWhenNothingImproves) {
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 1e-300);
  const auto data = squares(10);
  auto options = quick("early");
  options.epochs = 50;
  options.early_stopping = {.patience = 3};
  const auto summary = Trainer(world(), model, sgd, tw::train::regression(), data, data, options, &data).run();
  EXPECT_EQ(summary.epochs, 4);
  EXPECT_EQ(summary.best_epoch, 1);
  EXPECT_TRUE(summary.finished);
  EXPECT_EQ(summary.stopped_because, "loss has not improved for 3 evaluations");
}

/// Requests the end on one rank only, or raises a signal there.
struct Stopper : tw::train::Hook {
  explicit Stopper(int number) : signal(number) {}
  void on_update(tw::train::State& state) override {
    if (state.step != 3 || state.comm.rank() != state.comm.size() - 1) return;
    if (signal == 0) {
      state.stop("enough");
    } else {
      std::raise(signal);
    }
  }
  int signal;
};

TEST(Trainer, StopsWhereAnyRankAsks) {
  for (const auto& [signal, reason] : {std::pair{0, "enough"}, std::pair{SIGTERM, "SIGTERM"}, std::pair{SIGUSR1, "SIGUSR1"}}) {
    const auto model = make_mlp();
    torch::optim::SGD sgd(model.tensors(), 0.1);
    const auto data = rows(40);
    auto options = quick("stops");
    options.epochs = 5;
    options.global_batch = 4;
    Trainer trainer(world(), model, sgd, tw::train::classification(), data, data, options);
    Stopper stopper(signal);
    trainer.add(stopper);
    const auto summary = trainer.run();
    EXPECT_EQ(summary.stopped_because, reason);
    EXPECT_EQ(summary.steps, 4);  // the signal travels with the next step
    EXPECT_FALSE(summary.finished);
  }
}

TEST(Trainer, WritesATimelineOfAllRanks) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = rows(20);
  auto options = quick("trace");
  options.global_batch = 5;
  std::filesystem::create_directories(options.folder());
  options.trace = options.folder() / "trace.json";
  const auto summary = Trainer(world(), model, sgd, tw::train::classification(), data, data, options).run();
  ASSERT_TRUE(summary.step_memory.has_value());
  EXPECT_EQ(summary.step_memory->step, 3);
  EXPECT_EQ(summary.step_memory->rank, tw::train::worst_rank(summary.memory));
  EXPECT_EQ(summary.step_memory->moments.front().during, "forward");
  EXPECT_EQ(summary.step_memory->moments.back().during, "update");
  if (world().rank() != 0) return;
  std::ifstream in(options.trace);
  std::map<std::pair<int, std::string>, int> spans;
  std::map<int, std::pair<int64_t, int64_t>> memory;  // by rank: samples, peak bytes
  const auto trace = nlohmann::json::parse(in);
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "C") {
      EXPECT_EQ(event["name"], "memory");
      int64_t bytes = 0;
      for (const char* use : {"parameters", "gradients", "optimizer", "buffers", "activations"}) bytes += event["args"][use].get<int64_t>();
      auto& [samples, most] = memory[event["pid"]];
      ++samples;
      most = std::max(most, bytes);
    }
    if (event["ph"] != "X") continue;
    ++spans[{event["pid"], event["name"]}];
    EXPECT_GE(event["ts"], 0);
    EXPECT_LT(event["ts"], 1e9);  // 1000 s, though two hosts' clocks may be days apart
    EXPECT_GE(event["dur"], 0);
  }
  for (int rank = 0; rank < world().size(); ++rank) {
    EXPECT_GE(memory[rank].first, 4 * 4) << "where forward and backward pass and update begin, and where they end";
    EXPECT_NEAR(static_cast<double>(memory[rank].second), static_cast<double>(summary.memory[static_cast<size_t>(rank)].held.together()),
                static_cast<double>(memory[rank].second) / 128);
    for (const char* name : {"data", "forward", "backward", "update", "all-reduce"}) EXPECT_EQ((spans[{rank, name}]), 4) << rank << name;
  }
}

TEST(Trainer, NamesTheWrongOption) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = rows(5);
  const auto nothing = rows(0);
  const auto refuses = [&](auto change, const tw::Dataset& train_set) {
    auto options = quick("refuses");
    change(options);
    EXPECT_THROW(Trainer(world(), model, sgd, tw::train::classification(), train_set, data, options), tw::ContractError);
  };
  refuses([](auto& options) { options.batch_size = 0; }, data);
  refuses([](auto& options) { options.batch_size = std::numeric_limits<int64_t>::max(); }, data);
  refuses([](auto& options) { options.global_batch = 1'000'000'000; }, data);
  refuses([](auto& options) { options.loader_workers = 100'000; }, data);
  for (const char* name : {"", ".", "..", "a/b", "/tmp", "a\nb", "a\x7f"}) refuses([&](auto& options) { options.name = name; }, data);
  refuses([](auto& options) { options.accumulation = 0; }, data);
  refuses([](auto& options) { options.early_stopping.watch = "beauty"; }, data);
  refuses([](auto& options) { options.early_stopping.patience = 1; }, data);  // there is no figure to decide by
  refuses([](auto&) {}, nothing);
}

TW_TEST_ON(Trainer, NamesTheOptionThatDiffersBetweenRanks, {.least = 2}) {
  const auto model = make_mlp();
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = rows(5);
  const auto more = rows(6);
  const bool odd_one_out = world().rank() == world().size() - 1;
  const auto expect_named = [&](const std::string& name, auto change, const tw::Dataset& test_set) {
    auto options = quick("differs");
    if (odd_one_out) change(options);
    try {
      Trainer(world(), model, sgd, tw::train::classification(), data, odd_one_out ? test_set : data, options);
      ADD_FAILURE() << name << ": no exception";
    } catch (const tw::ContractError& error) {
      EXPECT_NE(std::string(error.what()).find(tw::concat("rank ", world().size() - 1, " has '", name, ' ')), std::string::npos) << error.what();
    }
  };
  expect_named("evaluate_every", [](auto& options) { options.evaluate_every = 2; }, data);
  expect_named("batch_size", [](auto& options) { options.batch_size = 0; }, data);  // also invalid by itself
  expect_named("uneven", [](auto& options) { options.uneven = tw::Uneven::pad; }, data);
  expect_named("checkpoint.keep", [](auto& options) { options.checkpoint.keep = 7; }, data);
  expect_named("checkpoint.every_steps", [](auto& options) { options.checkpoint.every_steps = 7; }, data);
  expect_named("early_stopping.min_delta", [](auto& options) { options.early_stopping.min_delta = 1e-17; }, data);
  expect_named("schedule.step_factor", [](auto& options) { options.schedule.step_factor += 1e-16; }, data);
  expect_named("non_finite", [](auto& options) { options.non_finite = tw::train::NonFinite::skip; }, data);
  expect_named("resume", [](auto& options) { options.resume = tw::train::Resume::fresh; }, data);
  expect_named("trace", [](auto& options) { options.trace = "trace.json"; }, data);
  expect_named("test samples", [](auto&) {}, more);
}

}  // namespace trainer_test
