// SPDX-License-Identifier: Apache-2.0
// A run that ends early and is resumed. On the same number of ranks it is bitwise equal to an uninterrupted run. On other numbers of ranks it has the
// same samples in the same updates.
#include <fstream>

#include "regression_run.hpp"

namespace resume_test {

using tw::testing::bitwise_equal;
using tw::testing::make_regressor;
using tw::testing::never;
using tw::testing::Outcome;
using tw::testing::run;
using tw::testing::squares;
using tw::testing::world;
using tw::train::Resume;
using tw::train::Trainer;

tw::train::Options options_for(const std::string& name) {
  auto options = tw::testing::three_epochs(name);
  options.checkpoint.every_epochs = 1;
  return options;
}

std::filesystem::path step_folder(const tw::train::Options& options, int64_t step) {
  return options.folder() / "checkpoints" / tw::concat("step_000000", step < 10 ? "0" : "", step);
}

// Damages the last byte of rank 0's part of a checkpoint.
void damage(const tw::train::Options& options, int64_t step) {
  if (world().rank() == 0) {
    const auto file = step_folder(options, step) / "rank_0000.safetensors";
    ASSERT_TRUE(std::filesystem::exists(file));
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(-1, std::ios::end);
    const int last = bytes.peek();
    bytes.put(static_cast<char>(last ^ 1));
  }
  world().barrier();
}

template <class Optimizer, class OptimizerOptions>
void expect_bitwise_equal(const std::string& name, const OptimizerOptions& rule) {
  const auto whole = run<Optimizer>(world(), options_for(name + "_whole"), rule, never);
  EXPECT_TRUE(whole.summary.finished);
  for (const int64_t stop_at : {1, 5, 6, 13}) {
    auto options = options_for(name);
    options.resume = Resume::fresh;
    const auto first = run<Optimizer>(world(), options, rule, stop_at);
    EXPECT_FALSE(first.summary.finished);
    EXPECT_EQ(first.summary.steps, stop_at + 1);
    options.resume = Resume::resume;
    const auto second = run<Optimizer>(world(), options, rule, never);
    EXPECT_TRUE(second.summary.finished);
    EXPECT_EQ(second.summary.steps, 18);
    EXPECT_TRUE(bitwise_equal(second.parameters, whole.parameters)) << name << " stopped at " << stop_at;
    EXPECT_EQ(second.summary.test, whole.summary.test);
    std::vector<double> seen = first.seen;
    seen.insert(seen.end(), second.seen.begin(), second.seen.end());
    EXPECT_EQ(seen, whole.seen);
  }
}

TEST(Resume, IsBitwiseEqualForEveryOptimizer) {
  expect_bitwise_equal<torch::optim::SGD>("sgd", torch::optim::SGDOptions(0.05).momentum(0.9).dampening(0.3));
  expect_bitwise_equal<torch::optim::Adam>("adam", torch::optim::AdamOptions(0.01).amsgrad(true));
  expect_bitwise_equal<torch::optim::AdamW>("adamw", torch::optim::AdamWOptions(0.01));
  expect_bitwise_equal<torch::optim::RMSprop>("rmsprop", torch::optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  expect_bitwise_equal<torch::optim::Adagrad>("adagrad", torch::optim::AdagradOptions(0.05));
}

/// Records the run's state after its second epoch.
struct Keeper : tw::train::Hook {
  explicit Keeper(const Trainer& of) : trainer(of) {}
  void on_end_epoch(tw::train::State& /*state*/, const tw::train::EpochReport& report) override {
    if (report.epoch != 2) return;
    for (const tw::NamedShard& each : trainer.shards()) kept.emplace(each.name, each.tensor.detach().clone());
  }
  const Trainer& trainer;
  std::map<std::string, at::Tensor> kept;
};

TEST(Resume, GoesOnFromTensorsInMemory) {
  auto options = options_for("memory");
  options.checkpoint = {.every_epochs = 0};
  const auto rule = torch::optim::AdamOptions(0.01);
  const auto data = squares(31);
  const auto first_model = make_regressor(0.2);
  torch::optim::Adam first(first_model.tensors(), rule);
  Trainer whole(world(), first_model, first, tw::train::regression(), data, data, options, &data);
  Keeper keeper(whole);
  whole.add(keeper);
  const auto expected = whole.run();

  const auto model = make_regressor(0.2);
  torch::optim::Adam adam(model.tensors(), rule);
  Trainer trainer(world(), model, adam, tw::train::regression(), data, data, options, &data);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : keeper.kept) names.push_back(name);
  trainer.prepare(names);
  const auto shards = trainer.shards();
  ASSERT_EQ(shards.size(), keeper.kept.size());
  {
    const at::NoGradGuard no_gradients;
    for (const auto& shard : shards) shard.tensor.copy_(keeper.kept.at(shard.name));
  }
  trainer.apply(shards);
  trainer.begin_after(2);
  tw::testing::Witness witness(never);
  trainer.add(witness);
  const auto summary = trainer.run();
  EXPECT_EQ(summary.steps, 18);
  EXPECT_EQ(summary.epochs, 3);
  EXPECT_EQ(summary.best_epoch, expected.best_epoch);
  EXPECT_EQ(summary.best, expected.best);
  EXPECT_LE(witness.seen.size(), 31U) << "one epoch";
  // Sums of two numbers do not depend on their order; sums of more round differently if gradients arrive in a different order.
  const auto mine = tw::testing::copies(model);
  const auto theirs = tw::testing::copies(first_model);
  if (world().size() <= 2) {
    EXPECT_TRUE(bitwise_equal(mine, theirs));
  } else {
    for (size_t i = 0; i < mine.size(); ++i) EXPECT_TRUE(at::allclose(mine[i], theirs[i], 1e-4, 1e-6));
  }
}

TW_TEST_ON(Resume, GoesOnOnOtherNumbersOfRanks, {.least = 3}) {
  const auto rule = torch::optim::AdamOptions(0.01);
  const auto on_ranks = [&](int ranks, const auto& call) {
    const tw::Communicator part = world().split(world().rank() < ranks ? 0 : 1, 0);
    if (world().rank() < ranks) call(part);
    world().barrier();
  };
  std::vector<at::Tensor> whole;
  on_ranks(1, [&](const auto& comm) { whole = run<torch::optim::Adam>(comm, options_for("one"), rule, never, /*dropout=*/0).parameters; });

  auto options = options_for("moves");
  std::vector<double> seen;
  const auto part = [&](int ranks, int64_t stop_at) {
    on_ranks(ranks, [&](const auto& comm) {
      const Outcome outcome = run<torch::optim::Adam>(comm, options, rule, stop_at, /*dropout=*/0);
      seen.insert(seen.end(), outcome.seen.begin(), outcome.seen.end());
      if (stop_at == never && world().rank() == 0) {
        ASSERT_FALSE(whole.empty());
        for (size_t i = 0; i < whole.size(); ++i) {
          // Sums over samples in a different order: 18 updates of some 1e-16 each, which Adam's quotient may amplify a hundredfold where gradients
          // are small.
          const double difference = (outcome.parameters[i] - whole[i]).norm().template item<double>();
          EXPECT_LT(difference, 1e-12 * 18 * whole[i].norm().template item<double>()) << i;
        }
      }
    });
    options.resume = Resume::resume;
  };
  options.resume = Resume::fresh;
  part(2, 4);
  part(3, 9);
  part(1, never);

  // Each of the 31 samples three times, once per epoch.
  std::string mine(reinterpret_cast<const char*>(seen.data()), seen.size() * sizeof(double));
  std::map<double, int> times;
  for (const std::string& bytes : tw::allgather_strings(world(), mine)) {
    std::vector<double> values(bytes.size() / sizeof(double));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
    for (const double value : values) ++times[value];
  }
  EXPECT_EQ(times.size(), 31U);
  for (const auto& [value, count] : times) EXPECT_EQ(count, 3) << value;
}

TEST(Resume, RefusesToLoseAnUnfinishedRun) {
  auto options = options_for("unfinished");
  options.resume = Resume::fresh;
  const auto rule = torch::optim::AdamOptions(0.01);
  run<torch::optim::Adam>(world(), options, rule, 3);
  options.resume = Resume::refuse;
  try {
    run<torch::optim::Adam>(world(), options, rule, never);
    ADD_FAILURE() << "no exception";
  } catch (const tw::Error& error) {
    EXPECT_NE(std::string(error.what()).find("holds a run that was not finished: epoch 1, step 4"), std::string::npos) << error.what();
  }
  options.resume = Resume::fresh;
  EXPECT_TRUE(run<torch::optim::Adam>(world(), options, rule, never).summary.finished);
  options.resume = Resume::refuse;  // a finished run may be replaced
  EXPECT_TRUE(run<torch::optim::Adam>(world(), options, rule, never).summary.finished);
  options.resume = Resume::resume;
  const auto again = run<torch::optim::Adam>(world(), options, rule, never);
  EXPECT_EQ(again.summary.steps, 18);  // nothing was left to do
  EXPECT_TRUE(again.seen.empty());
}

TEST(Resume, RefusesToLoseARunWhoseCheckpointsAreDamaged) {
  auto options = options_for("all_damaged");
  options.resume = Resume::fresh;
  const auto rule = torch::optim::AdamOptions(0.01);
  const auto expect_refused = [&](Resume how, int64_t step) {
    options.resume = how;
    try {
      run<torch::optim::Adam>(world(), options, rule, never);
      ADD_FAILURE() << "no exception";
    } catch (const tw::Error& error) {
      EXPECT_NE(std::string(error.what()).find(tw::concat("the newest checkpoint, of step ", step, ", is damaged")), std::string::npos)
          << error.what();
    }
    world().barrier();
    EXPECT_TRUE(std::filesystem::exists(step_folder(options, step)));
    world().barrier();
  };
  run<torch::optim::Adam>(world(), options, rule, 3);
  damage(options, 4);
  expect_refused(Resume::refuse, 4);
  expect_refused(Resume::resume, 4);
  // Before the damaged checkpoint lies that of a finished run which was then extended.
  options.resume = Resume::fresh;
  EXPECT_TRUE(run<torch::optim::Adam>(world(), options, rule, never).summary.finished);
  options.resume = Resume::resume;
  options.epochs = 4;
  run<torch::optim::Adam>(world(), options, rule, 20);
  damage(options, 21);
  expect_refused(Resume::refuse, 21);
  options.resume = Resume::fresh;
  EXPECT_TRUE(run<torch::optim::Adam>(world(), options, rule, never).summary.finished);
}

TEST(Resume, RefusesOtherData) {
  auto options = options_for("other_data");
  options.resume = Resume::fresh;
  run<torch::optim::Adam>(world(), options, torch::optim::AdamOptions(0.01), 3);
  options.resume = Resume::resume;
  const auto message = [&](const tw::Dataset& train_set, const tw::Dataset& test_set, const tw::Dataset* validation) {
    const auto model = make_regressor(0);
    torch::optim::Adam adam(model.tensors(), torch::optim::AdamOptions(0.01));
    try {
      Trainer(world(), model, adam, tw::train::regression(), train_set, test_set, options, validation).run();
      return std::string("no exception");
    } catch (const tw::Error& error) {
      return std::string(error.what());
    }
  };
  const auto same = squares(31);
  const auto fewer = squares(30);
  at::Tensor edited = same.targets().clone();
  edited[17] += 1;
  const tw::TensorDataset one_changed(same.inputs(), edited);
  const at::Tensor inputs = torch::rand({31, 4}, torch::kDouble);
  const tw::TensorDataset others(inputs, inputs.sum(1, /*keepdim=*/true));
  for (const tw::TensorDataset* wrong : {&fewer, &others, &one_changed}) {
    const std::string line = "began with different data. It had, to train: 31 samples, content ";
    EXPECT_NE(message(*wrong, same, &same).find(line), std::string::npos);
    EXPECT_NE(message(same, *wrong, &same).find(line), std::string::npos);
    EXPECT_NE(message(same, same, wrong).find(line), std::string::npos);
  }
  const std::string none = message(same, same, nullptr);
  EXPECT_NE(none.find("; to validate: 31 samples, content "), std::string::npos) << none;
  EXPECT_NE(none.find("; to validate: nothing. Resume it with its own"), std::string::npos) << none;
  EXPECT_EQ(message(same, same, &same), "no exception");
}

TEST(Resume, LosesNothingToOptionsThatAreRefused) {
  auto options = options_for("refused");
  options.resume = Resume::fresh;
  const auto rule = torch::optim::AdamOptions(0.01);
  run<torch::optim::Adam>(world(), options, rule, never);
  const auto expect_refused = [&](auto change) {
    auto wrong = options;
    change(wrong);
    EXPECT_ANY_THROW(run<torch::optim::Adam>(world(), wrong, rule, never));
  };
  expect_refused([](auto& wrong) { wrong.accumulation = 4; });
  expect_refused([](auto& wrong) {
    wrong.trace = "/no/such/place/trace.json";
    wrong.epochs = 1;  // if it were trained, two epochs would remain below
  });
  if (world().size() > 1) {
    expect_refused([](auto& wrong) {
      wrong.uneven = tw::Uneven::drop;
      wrong.global_batch = 2 * world().size() + 2;  // not two passes of a multiple of the ranks
    });
  }
  options.resume = Resume::resume;
  const auto again = run<torch::optim::Adam>(world(), options, rule, never);
  EXPECT_EQ(again.summary.steps, 18);  // it is still there, and finished
  EXPECT_TRUE(again.seen.empty());
}

TEST(Resume, KeepsARunEndedThatEndedForLackOfProgress) {
  auto options = options_for("impatient");
  options.epochs = 50;
  options.early_stopping.patience = 2;
  options.resume = Resume::fresh;
  const auto rule = torch::optim::SGDOptions(1e-300);  // nothing moves
  const auto first = run<torch::optim::SGD>(world(), options, rule, never);
  EXPECT_EQ(first.summary.epochs, 3);
  options.resume = Resume::resume;
  for (int i = 0; i < 2; ++i) {
    const auto again = run<torch::optim::SGD>(world(), options, rule, never);
    EXPECT_EQ(again.summary.epochs, 3);
    EXPECT_TRUE(again.summary.finished);
    EXPECT_EQ(again.summary.stopped_because, first.summary.stopped_because);
    EXPECT_EQ(again.summary.test, first.summary.test);
    EXPECT_TRUE(again.seen.empty());
  }
  options.early_stopping.patience = 4;
  EXPECT_EQ(run<torch::optim::SGD>(world(), options, rule, never).summary.epochs, 5);
}

TEST(Resume, GoesBackToTheCheckpointBeforeADamagedOne) {
  auto options = options_for("damaged");
  options.resume = Resume::fresh;
  options.checkpoint.every_steps = 2;
  const auto rule = torch::optim::AdamOptions(0.01);
  const auto whole = run<torch::optim::Adam>(world(), options, rule, never);
  run<torch::optim::Adam>(world(), options, rule, 5);  // checkpoints of steps 4 and 6
  damage(options, 6);
  options.resume = Resume::resume;
  const auto resumed = run<torch::optim::Adam>(world(), options, rule, never);
  EXPECT_EQ(resumed.summary.steps, 18);
  EXPECT_TRUE(bitwise_equal(resumed.parameters, whole.parameters));
}

TEST(Resume, KeepsAllNamesOfTiedTensors) {
  torch::nn::Sequential net(torch::nn::Linear(4, 4), torch::nn::Tanh(), torch::nn::Linear(4, 4), torch::nn::Linear(4, 1));
  net->to(torch::kDouble);
  auto& second = net->at<torch::nn::LinearImpl>(2);
  second.weight = second.register_parameter("tied", net->at<torch::nn::LinearImpl>(0).weight);
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::Adam adam(model.tensors(), 0.01);
  const auto data = squares(31);
  auto options = options_for("tied");
  options.resume = Resume::fresh;
  Trainer(world(), model, adam, tw::train::regression(), data, data, options, &data).run();
  world().barrier();
  const auto checkpoint = tw::Checkpoint::open(options.folder() / "checkpoints");
  EXPECT_TRUE(checkpoint.read("2.tied").equal(model.parameters.at(0).tensor));
  EXPECT_EQ(tw::SafetensorsFile(options.folder() / "best.safetensors").metadata().at("2.tied"), "0.weight");
}

TEST(Resume, TellsTwoRunsInOneFolderApart) {
  const auto options = options_for("locked");
  const auto model = make_regressor(0);
  torch::optim::SGD sgd(model.tensors(), 0.1);
  const auto data = squares(5);
  const Trainer first(world(), model, sgd, tw::train::regression(), data, data, options, &data);
  EXPECT_THROW(Trainer(world(), model, sgd, tw::train::regression(), data, data, options, &data), tw::Error);
}

}  // namespace resume_test
