// SPDX-License-Identifier: Apache-2.0
// LibTorch is the oracle: optimizers with the same state and options make the same step, bit by bit.
#include "training.hpp"

#include <functional>
#include <tw/data_parallel.hpp>

namespace synchronize_optimizer_test {

using tw::testing::expect_error;
using tw::testing::world;
using Parameters = std::vector<at::Tensor>;
using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(const Parameters&, double learning_rate)>;

Parameters make_parameters() { return {torch::ones({3, 2}, torch::requires_grad()), torch::ones({4}, torch::requires_grad())}; }

// One step with gradients that depend on `seed`; a parameter without a gradient is unchanged.
void step(torch::optim::Optimizer& optimizer, const Parameters& parameters, uint64_t seed, size_t trained) {
  torch::manual_seed(seed);
  for (size_t i = 0; i < parameters.size(); ++i) {
    at::Tensor gradient = torch::randn_like(parameters[i]);
    at::Tensor(parameters[i]).mutable_grad() = i < trained ? gradient : at::Tensor();
  }
  optimizer.step();
}

/// Every rank's optimizer has its own history and options. `root` has updated `trained_by_root` parameters, the others 2 or, if `fresh`, none.
void expect_synchronized(const Make& make, int root, size_t trained_by_root, bool fresh) {
  const bool is_root = world().rank() == root;
  Parameters parameters = make_parameters();
  const auto optimizer = make(parameters, is_root ? 0.03 : 0.5);
  const int steps = is_root ? 3 : fresh ? 0 : 1 + world().rank();
  for (int i = 0; i < steps; ++i) step(*optimizer, parameters, static_cast<uint64_t>(100 * world().rank() + i), is_root ? trained_by_root : 2);

  tw::synchronize(world(), *optimizer, tw::Rank(root));
  tw::synchronize(world(), parameters, tw::Rank(root));
  EXPECT_EQ(optimizer->param_groups()[0].options().get_lr(), 0.03);
  EXPECT_EQ(optimizer->defaults().get_lr(), 0.03);

  // The root's optimizer without any other rank.
  Parameters alone = make_parameters();
  const auto expected = make(alone, 0.03);
  for (int i = 0; i < 3; ++i) step(*expected, alone, static_cast<uint64_t>(100 * root + i), trained_by_root);
  for (int i = 0; i < 2; ++i) {
    step(*optimizer, parameters, static_cast<uint64_t>(7 + i), 2);
    step(*expected, alone, static_cast<uint64_t>(7 + i), 2);
  }
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(parameters[i].equal(alone[i])) << "parameter " << i << " of root " << root;
}

void expect_synchronized(const Make& make) {
  for (int root = 0; root < world().size(); ++root) {
    for (const size_t trained_by_root : {size_t{0}, size_t{1}, size_t{2}}) {
      for (const bool fresh : {false, true}) expect_synchronized(make, root, trained_by_root, fresh);
    }
  }
}

TEST(SynchronizeOptimizer, SgdWithMomentum) {
  expect_synchronized([](const Parameters& p, double lr) {
    return std::make_unique<torch::optim::SGD>(p, torch::optim::SGDOptions(lr).momentum(lr * 10).weight_decay(lr));
  });
}

TEST(SynchronizeOptimizer, Adam) {
  expect_synchronized([](const Parameters& p, double lr) {
    return std::make_unique<torch::optim::Adam>(p, torch::optim::AdamOptions(lr).betas({lr, 0.99}).amsgrad(lr < 0.1));
  });
}

TEST(SynchronizeOptimizer, AdamW) {
  expect_synchronized([](const Parameters& p, double lr) { return std::make_unique<torch::optim::AdamW>(p, torch::optim::AdamWOptions(lr)); });
}

TEST(SynchronizeOptimizer, Adagrad) {
  expect_synchronized([](const Parameters& p, double lr) { return std::make_unique<torch::optim::Adagrad>(p, torch::optim::AdagradOptions(lr)); });
}

TEST(SynchronizeOptimizer, RmsPropWithAll) {
  expect_synchronized([](const Parameters& p, double lr) {
    return std::make_unique<torch::optim::RMSprop>(p, torch::optim::RMSpropOptions(lr).momentum(lr * 10).centered(lr < 0.1));
  });
}

TEST(SynchronizeOptimizer, TakesGroupsWithRatesOfTheirOwn) {
  const Parameters parameters = make_parameters();
  const double scale = world().rank() + 1;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(Parameters{parameters[0]}, std::make_unique<torch::optim::SGDOptions>(0.1 * scale));
  groups.emplace_back(Parameters{parameters[1]}, std::make_unique<torch::optim::SGDOptions>(0.2 * scale));
  torch::optim::SGD sgd(groups, torch::optim::SGDOptions(0.3 * scale));
  tw::synchronize(world(), sgd);
  EXPECT_EQ(sgd.param_groups()[0].options().get_lr(), 0.1);
  EXPECT_EQ(sgd.param_groups()[1].options().get_lr(), 0.2);
}

TW_TEST_ON(SynchronizeOptimizer, RefusesWhatDiffersOnEveryRank, {.least = 2}) {  // one rank agrees with itself
  const Parameters parameters = make_parameters();
  std::unique_ptr<torch::optim::Optimizer> optimizer = std::make_unique<torch::optim::SGD>(parameters, 0.1);
  if (world().rank() == 1) optimizer = std::make_unique<torch::optim::Adam>(parameters, 0.1);
  expect_error([&] { tw::synchronize(world(), *optimizer); }, "rank 1 has 'torch::optim::Adam' where rank 0 has 'torch::optim::SGD'");

  torch::optim::SGD sgd(world().rank() == 1 ? Parameters{parameters[0]} : parameters, 0.1);
  expect_error([&] { tw::synchronize(world(), sgd); }, "rank 1 has nothing more where rank 0 has 'group 0, parameter 1 float32 [4]'");
}

TEST(SynchronizeOptimizer, RefusesOtherKindsByName) {
  torch::optim::LBFGS lbfgs(make_parameters());
  expect_error([&] { tw::synchronize(world(), lbfgs); }, "torch::optim::LBFGS");
}

}  // namespace synchronize_optimizer_test
