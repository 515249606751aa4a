// SPDX-License-Identifier: Apache-2.0
// What is evaluated, and what decides; modes of submodules; the last update of an epoch.
#include "message_of.hpp"
#include "support.hpp"

#include <atomic>

namespace validation_test {

using tw::testing::make_regressor;
using tw::testing::quick;
using tw::testing::squares;
using tw::testing::world;
using tw::train::Trainer;

/// Counts the samples that are read on this rank.
class Counted : public tw::Dataset {
 public:
  explicit Counted(tw::TensorDataset data) : data_(std::move(data)) {}
  int64_t size() const override { return data_.size(); }
  tw::Batch batch(std::span<const int64_t> indices) const override {
    asked += static_cast<int64_t>(indices.size());
    return data_.batch(indices);
  }
  mutable std::atomic<int64_t> asked = 0;

 private:
  tw::TensorDataset data_;
};

// Other labels of the test set change only its own figures, reported once, at the end.
TEST(Validation, TheTestSetDecidesNothing) {
  const auto data = squares(40);
  const auto validation = squares(12);
  const auto run = [&](const at::Tensor& labels) {
    const auto model = make_regressor(0.2);
    torch::optim::Adam adam(model.tensors(), 0.3);  // so large that the loss goes up and down
    auto options = quick("poisoned");
    options.epochs = 12;
    options.early_stopping = {.patience = 2};
    const Counted test(tw::TensorDataset(squares(20).inputs(), labels));
    struct Look : tw::train::Hook {
      explicit Look(const Counted& set) : test(set) {}
      void on_end_epoch(tw::train::State&, const tw::train::EpochReport&) override { EXPECT_EQ(test.asked, 0); }
      const Counted& test;
    } look(test);
    Trainer trainer(world(), model, adam, tw::train::regression(), data, test, options, &validation);
    test.asked = 0;  // ranks compare a few samples before
    trainer.add(look);
    const auto summary = trainer.run();
    const int64_t share = (20 - world().rank() + world().size() - 1) / world().size();
    EXPECT_EQ(test.asked, share) << "once";
    return std::pair(summary, tw::testing::copies(model));
  };
  const auto [clean, parameters] = run(squares(20).targets());
  const auto [poisoned, same] = run(torch::full({20, 1}, 1e3, torch::kDouble));
  EXPECT_TRUE(clean.finished);
  EXPECT_EQ(poisoned.epochs, clean.epochs);
  EXPECT_EQ(poisoned.best_epoch, clean.best_epoch);
  EXPECT_EQ(poisoned.best, clean.best);
  EXPECT_EQ(poisoned.validation, clean.validation);
  EXPECT_TRUE(tw::testing::bitwise_equal(same, parameters));
  EXPECT_GT(tw::train::figure(poisoned.test, "loss"), 1e5);
  EXPECT_LT(tw::train::figure(clean.test, "loss"), 1e3);
}

/// A regressor of four numbers with a batch norm.
torch::nn::Sequential with_norm() {
  torch::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 1));
  net->to(torch::kDouble);
  return net;
}

tw::train::Model model_of(torch::nn::Sequential net) {
  return tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
}

/// A data set that cannot be read.
struct Broken : tw::Dataset {
  int64_t size() const override { return 6; }
  tw::Batch batch(std::span<const int64_t>) const override { throw tw::Error("cannot be read"); }
};

/// Rows per forward pass of an evaluation of 10 samples per rank, if updates have passes of 4.
TEST(Validation, EvaluatesAsManyRowsAsAPassHasOrAsAreAskedFor) {
  using Rows = std::vector<int64_t>;
  const auto data = squares(10 * world().size());
  tw::train::Figures expected;
  const std::vector<std::pair<int64_t, Rows>> cases{{0, {4, 4, 2}}, {4, {4, 4, 2}}, {7, {7, 3}}, {100, {10}}};
  for (const auto& [batch_size, wanted] : cases) {
    auto net = with_norm();
    Rows rows;
    const auto model = tw::train::model_of(net.ptr(), [&, net](const at::Tensor& x) mutable {
      if (!net->is_training()) rows.push_back(x.size(0));
      return net->forward(x);
    });
    torch::optim::SGD sgd(model.tensors(), 0.01);
    auto options = quick("rows");
    options.global_batch = 8 * world().size();
    options.accumulation = 2;
    options.evaluate.batch_size = batch_size;
    Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
    const auto figures = trainer.evaluate(data);
    EXPECT_EQ(rows, wanted) << batch_size;
    if (expected.empty()) expected = figures;
    ASSERT_EQ(figures.size(), expected.size());
    for (size_t i = 0; i < figures.size(); ++i) {  // sums of 30 numbers in a different order
      EXPECT_NEAR(figures[i].second, expected[i].second, 1e-13 * std::abs(expected[i].second)) << figures[i].first << " of " << batch_size;
    }
  }
}

TEST(Modes, WhatEvalHasFrozenStaysFrozen) {
  const auto net = with_norm();
  const auto norm = std::dynamic_pointer_cast<torch::nn::BatchNorm1dImpl>(net->ptr(1));
  norm->eval();
  norm->weight.requires_grad_(false);
  const at::Tensor mean = norm->running_mean.clone();
  const auto model = model_of(net);
  std::vector<at::Tensor> trained{model.parameters.at(0).tensor};
  torch::optim::SGD sgd(trained, 0.01);
  const auto data = squares(24);
  auto options = quick("frozen");
  options.epochs = 2;
  Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options, &data);
  trainer.run();
  EXPECT_TRUE(norm->running_mean.equal(mean));
  EXPECT_TRUE(net->is_training());
  EXPECT_FALSE(norm->is_training());
  EXPECT_THROW((void)trainer.evaluate(Broken()), tw::Error);
  EXPECT_TRUE(net->is_training()) << "after an evaluation that throws, too";
  EXPECT_FALSE(norm->is_training());
}

TEST(Validation, ATestSetThatCannotBeReadLosesNoTraining) {
  const auto data = squares(8 * world().size());
  struct Breaking : tw::Dataset {
    explicit Breaking(const tw::Dataset& all) : whole(all) {}
    int64_t size() const override { return whole.size(); }
    tw::Batch batch(std::span<const int64_t> indices) const override { return is_broken ? Broken().batch(indices) : whole.batch(indices); }
    const tw::Dataset& whole;
    bool is_broken = false;
  } test(data);
  auto options = quick("untested");
  options.checkpoint.every_epochs = 1000;
  options.resume = tw::train::Resume::fresh;
  const auto run = [&](bool is_broken) {
    const auto model = model_of(with_norm());
    torch::optim::SGD sgd(model.tensors(), 0.01);
    test.is_broken = false;
    Trainer trainer(world(), model, sgd, tw::train::regression(), data, test, options);
    test.is_broken = is_broken;
    return trainer.run();
  };
  EXPECT_THROW((void)run(/*is_broken=*/true), tw::Error);
  EXPECT_FALSE(std::filesystem::is_empty(options.folder() / "checkpoints"));
  options.resume = tw::train::Resume::resume;  // like a run that was killed before its test
  const auto resumed = run(/*is_broken=*/false);
  EXPECT_EQ(resumed.train_time.count(), 0);
  EXPECT_EQ(run(/*is_broken=*/true).test, resumed.test) << "the checkpoint has the test";
  options.name = "tested";
  options.resume = tw::train::Resume::fresh;
  EXPECT_EQ(resumed.test, run(/*is_broken=*/false).test);
}

TEST(DropLast, CountsTheSamplesThatFillUpShares) {
  const int64_t ranks = world().size();
  const auto data = squares(4 * ranks - 1);
  const auto model = model_of(with_norm());
  torch::optim::SGD sgd(model.tensors(), 0.01);
  auto options = quick("filled");
  options.epochs = 2;
  options.batch_size = 4;
  options.drop_last = true;
  options.uneven = tw::Uneven::pad;
  if (ranks == 1) options.batch_size = 3;
  EXPECT_EQ(Trainer(world(), model, sgd, tw::train::regression(), data, data, options).run().steps, 2);
}

TEST(DropLast, LeavesOutALastUpdateOfFewerSamples) {
  const int64_t ranks = world().size();
  const auto data = squares(9 * ranks);  // per rank: two updates of four samples, and one of one
  const auto train = [&](bool drop_last) {
    const auto model = model_of(with_norm());
    torch::optim::SGD sgd(model.tensors(), 0.01);
    auto options = quick("rest");
    options.epochs = 2;
    options.batch_size = 4;
    options.drop_last = drop_last;
    Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
    struct Count : tw::train::Hook {
      void on_sample(tw::train::State& state) override { samples += state.batch.size(); }
      void on_end_epoch(tw::train::State&, const tw::train::EpochReport& report) override { of_epoch = report.samples; }
      int64_t samples = 0;
      int64_t of_epoch = 0;
    } count;
    trainer.add(count);
    const auto summary = trainer.run();
    EXPECT_EQ(count.of_epoch, 8 * ranks);
    EXPECT_EQ(count.samples, 16);
    return summary;
  };
  EXPECT_EQ(train(true).steps, 4);
  const std::string message = tw::testing::message_of([&] { (void)train(false); });
  for (const char* part : {"pass 0 of step 2, over 1 sample, where it usually has 4: Expected more than 1 value per channel", "(drop_last = true)"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

}  // namespace validation_test
