// SPDX-License-Identifier: Apache-2.0
// A sharded optimizer on n ranks = the unsharded one on 1 rank with all samples, after 20 steps, in float64. Every rank also trains the serial
// reference. Tolerance: as in equivalence_test.cpp, |ours - reference| <= 1e-12 |reference| in the 2-norm; rules are elementwise, so slicing changes
// no bit.
#include "message_of.hpp"
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <filesystem>
#include <tw/data_parallel.hpp>
#include <tw/state.hpp>

#include "sharded_optimizer_training.hpp"

namespace sharded_test {

using tw::testing::elementwise_optimizers;
using tw::testing::make_optimizer;
using tw::testing::place;
using tw::testing::world;
using namespace tw::testing::sharded_optimizer;

TEST(ShardedOptimizer, EqualsTheUnshardedOne) {
  for (const std::string& kind : elementwise_optimizers) {
    for (const Mode& mode : modes()) {
      auto reference = make_net();
      const auto reference_optimizer = make_optimizer(kind, reference->parameters());
      Sharded ours(kind, mode);
      for (int64_t step = 0; step < 20; ++step) {
        reference_optimizer->zero_grad();
        loss_of(reference, all_samples(step)).backward();
        reference_optimizer->step();
        ours.step(step);
      }
      expect_equal(ours.net, reference, kind + ", " + mode.name);
    }
  }
}

TEST(ShardedOptimizer, AccumulatesUnderNoSync) {
  for (const Mode& mode : modes()) {
    auto reference = make_net();
    const auto reference_optimizer = make_optimizer("Adam", reference->parameters());
    Sharded ours("Adam", mode);
    for (int64_t step = 0; step < 10; ++step) {
      reference_optimizer->zero_grad();
      ours.optimizer.zero_grad();
      for (int64_t pass = 0; pass < 3; ++pass) {
        loss_of(reference, all_samples(3 * step + pass)).backward();
        std::optional<tw::DataParallel::NoSync> local;
        if (pass < 2) local.emplace(ours.parallel.no_sync());
        loss_of(ours.net, my_samples(3 * step + pass)).backward();
      }
      reference_optimizer->step();
      ours.optimizer.step();
    }
    expect_equal(ours.net, reference, mode.name);
  }
}

TEST(ShardedOptimizer, ClipsByTheNormOfAllGradients) {
  auto reference = make_net();
  const auto reference_optimizer = make_optimizer("SGD", reference->parameters());
  for (const Mode& mode : modes()) {
    reference = make_net();
    const auto optimizer = make_optimizer("SGD", reference->parameters());
    Sharded ours("SGD", mode, 0.05);
    for (int64_t step = 0; step < 10; ++step) {
      optimizer->zero_grad();
      loss_of(reference, all_samples(step)).backward();
      const double norm = torch::nn::utils::clip_grad_norm_(reference->parameters(), 0.05);
      optimizer->step();
      ours.step(step);
      EXPECT_NEAR(ours.optimizer.gradient_norm(), norm, 1e-10 * norm) << mode.name;
      EXPECT_GT(norm, 0.05);
    }
    expect_equal(ours.net, reference, mode.name);
  }
}

TEST(ShardedOptimizer, LeavesWhatNobodyUsesAlone) {
  torch::nn::Linear used(3, 2);
  torch::nn::Linear unused(3, 2);
  const std::vector<tw::NamedTensor> parameters{{"used", used->weight}, {"unused", unused->weight}};
  tw::synchronize(world(), parameters);
  const at::Tensor before = unused->weight.detach().clone();
  torch::optim::AdamW prototype({used->weight, unused->weight}, torch::optim::AdamWOptions(0.1).weight_decay(0.5));
  tw::DataParallel parallel(world(), parameters, {.reduction = tw::Reduction::sum, .sharding = tw::Sharding::slices});
  tw::ShardedOptimizer adam(parallel.reducer(), parameters, tw::optimizer_like(prototype, parameters));
  const at::Tensor used_before = used->weight.detach().clone();
  used->forward(torch::ones({1, 3})).sum().backward();
  adam.step();
  EXPECT_TRUE(unused->weight.equal(before));  // not even weight decay, as in LibTorch
  EXPECT_FALSE(used->weight.equal(used_before));
}

// As torch::load() does it.
TEST(ShardedOptimizer, TakesOverParametersThatWereMoved) {
  for (const Mode& mode : modes()) {
    auto reference = make_net();
    const auto reference_optimizer = make_optimizer("Adam", reference->parameters());
    Sharded ours("Adam", mode);
    for (int64_t step = 0; step < 6; ++step) {
      reference_optimizer->zero_grad();
      loss_of(reference, all_samples(step)).backward();
      reference_optimizer->step();
      loss_of(ours.net, my_samples(step)).backward();
      if (mode.one_copy_per_node && step == 3) {
        at::Tensor moved = ours.net->parameters()[0];
        const at::Tensor place = moved.tensor_data();
        moved.set_data(place.clone());
        const std::string message = tw::testing::message_of([&] { ours.optimizer.step(); });
        EXPECT_NE(message.find("'0.weight' was moved out of the memory"), std::string::npos) << message;
        return;
      }
      ours.optimizer.step();
      if (step != 2) continue;
      const torch::NoGradGuard no_grad;
      const auto theirs = reference->parameters();
      const auto mine = ours.net->parameters();
      for (size_t i = 0; i < mine.size(); ++i) {
        theirs[i].mul_(0.5);
        mine[i].set_data(mine[i] * 0.5);
      }
    }
    expect_equal(ours.net, reference, mode.name);
  }
}

// LibTorch lists the parameters of a module registered under two names twice, and steps them twice. So must its sharded optimizer.
TEST(ShardedOptimizer, StepsAModuleThatIsRegisteredTwiceAsLibTorchDoes) {
  const auto make = [] {
    torch::manual_seed(8);
    const torch::nn::Linear shared(3, 3);
    torch::nn::Sequential net(shared, torch::nn::Tanh(), shared, torch::nn::Linear(3, 2));
    net->to(torch::kDouble);
    return net;
  };
  const at::Tensor x = torch::linspace(-1, 1, 12, torch::kDouble).reshape({4, 3});
  for (const std::string kind : {"SGD", "Adam"}) {
    const auto reference = make();
    ASSERT_EQ(reference->parameters().size(), 6U) << "LibTorch lists shared parameters twice";
    const auto reference_optimizer = make_optimizer(kind, reference->parameters());
    const auto ours = make();
    const auto prototype = make_optimizer(kind, ours->parameters());
    tw::DataParallel parallel(world(), *ours, {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices});
    tw::ShardedOptimizer optimizer(parallel.reducer(), parallel.parameters(), tw::optimizer_like(*prototype, parallel.parameters()));
    for (int step = 0; step < 5; ++step) {
      reference_optimizer->zero_grad();
      torch::nn::Sequential(reference)->forward(x).square().mean().backward();
      reference_optimizer->step();
      torch::nn::Sequential(ours)->forward(x).square().mean().backward();
      optimizer.step();
    }
    expect_equal(ours, reference, kind);
  }
}

TEST(ShardedOptimizer, SavesStateThatAnyOtherWayOfHoldingItCanLoad) {
  const auto directory = std::filesystem::path(std::getenv("TEST_TMPDIR") != nullptr ? std::getenv("TEST_TMPDIR") : "/tmp") /
                         tw::concat("sharded_state_", world().size());
  for (const std::string& kind : elementwise_optimizers) {
    for (const Mode& saver_mode : modes()) {
      Sharded saver(kind, saver_mode);
      for (int64_t step = 0; step < 3; ++step) saver.step(step);
      const auto shards_of = [](torch::nn::Sequential& net, const tw::OptimizerState& state) {
        auto shards = tw::module_shards(*net);
        for (tw::NamedShard& shard : state.shards()) shards.push_back(std::move(shard));
        return shards;
      };
      tw::CheckpointStore store(world(), directory, {.background = false});
      store.remove_all();
      const tw::OptimizerState saved(saver.optimizer.local(), saver.optimizer.optimized());
      store.save(3, shards_of(saver.net, saved), "");
      store.wait();
      const std::vector<std::string> names = store.names(3);
      const auto load = [&](torch::nn::Sequential& net, tw::OptimizerState& state) {
        const at::NoGradGuard no_grad;
        state.prepare(names);
        const auto shards = shards_of(net, state);
        store.load(3, shards);
        state.apply(shards);
      };
      auto plain = make_net();  // the whole state on every rank
      const auto plain_optimizer = make_optimizer(kind, plain->parameters());
      std::vector<tw::NamedTensor> plain_parameters;
      for (const auto& entry : plain->named_parameters()) plain_parameters.push_back({entry.key(), entry.value()});
      tw::OptimizerState plain_state(*plain_optimizer, plain_parameters);
      load(plain, plain_state);
      Sharded other(kind, modes()[saver_mode.sharding == tw::Sharding::slices ? 2 : 0]);
      tw::OptimizerState other_state(other.optimizer.local(), other.optimizer.optimized());
      load(other.net, other_state);

      for (int64_t step = 3; step < 6; ++step) {
        plain_optimizer->zero_grad();
        loss_of(plain, all_samples(step)).backward();
        plain_optimizer->step();
        other.step(step);
        saver.step(step);
      }
      expect_equal(saver.net, plain, kind + ", " + saver_mode.name + " loaded whole");
      expect_equal(other.net, plain, kind + ", " + saver_mode.name + " loaded otherwise sharded");
      store.remove_all();
    }
  }
  if (world().rank() == 0) std::filesystem::remove_all(directory);
}

// Adam keeps two numbers per parameter. A rank's share of them, of released reduced gradients and of buckets must match docs/strategies.md within 5 %
// for padding.
TEST(ShardedOptimizer, TakesTheMemoryThatTheFormulaSays) {
  torch::nn::Sequential net(torch::nn::Linear(200, 300), torch::nn::Tanh(), torch::nn::Linear(300, 200));
  const torch::optim::Adam prototype(net->parameters());
  double n = 0;
  for (const at::Tensor& parameter : net->parameters()) n += static_cast<double>(parameter.nbytes());
  for (const bool release : {false, true}) {
    tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices, .release = release});
    tw::ShardedOptimizer adam(parallel.reducer(), parallel.parameters(), tw::optimizer_like(prototype, parallel.parameters()));
    net->forward(torch::ones({2, 200})).sum().backward();
    adam.step();
    double state = 0;
    for (const auto& entry : adam.local().state()) {
      const auto& of_piece = static_cast<const torch::optim::AdamParamState&>(*entry.second);
      state += static_cast<double>(of_piece.exp_avg().nbytes() + of_piece.exp_avg_sq().nbytes());
    }
    EXPECT_NEAR(state, 2 * n / world().size(), 0.05 * 2 * n / world().size());
    double buckets = 0;
    double shares = 0;
    for (size_t i = 0; i < parallel.plan().buckets.size(); ++i) {
      buckets += 4.0 * static_cast<double>(parallel.plan().buckets[i].numel);
      shares += static_cast<double>(parallel.reducer().shard(static_cast<int64_t>(i)).nbytes());
    }
    EXPECT_NEAR(buckets, n, 0.05 * n);
    EXPECT_NEAR(shares, n / world().size(), 0.05 * n / world().size());
    if (release) {  // only the shares remain
      EXPECT_THROW(parallel.reducer().gradient(0), tw::ContractError);
    } else {  // shares are part of the buckets
      const at::Tensor share = parallel.reducer().shard(0);
      const at::Tensor gradient = parallel.reducer().gradient(parallel.plan().buckets[0].gradients.front());
      EXPECT_EQ(share.storage().data(), gradient.storage().data());
    }
  }
}

TEST(ShardedOptimizer, NamesMisuse) {
  auto net = make_net();
  const auto parameters = [&] {
    std::vector<tw::NamedTensor> all;
    for (const auto& entry : net->named_parameters()) all.push_back({entry.key(), entry.value()});
    return all;
  }();
  const auto expect_error = [](const std::string& words, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "no exception: " << words;
    } catch (const tw::ContractError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  torch::optim::SGD sgd(net->parameters(), 0.1);
  {
    tw::DataParallel whole(world(), *net, {.reduction = tw::Reduction::mean});
    expect_error("ReducerOptions::sharding", [&] { tw::ShardedOptimizer(whole.reducer(), parameters, tw::optimizer_like(sgd, parameters)); });
  }
  tw::DataParallel sharded(world(), *net, {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices});
  const auto lbfgs = [](const std::vector<tw::NamedTensor>& pieces) {
    std::vector<at::Tensor> tensors;
    for (const tw::NamedTensor& piece : pieces) tensors.push_back(piece.tensor);
    return std::make_unique<torch::optim::LBFGS>(tensors);
  };
  expect_error("LBFGS needs all parameters at once", [&] { tw::ShardedOptimizer(sharded.reducer(), parameters, lbfgs); });
  expect_error("not those whose gradients are reduced",
               [&] { tw::ShardedOptimizer(sharded.reducer(), {parameters[0]}, tw::optimizer_like(sgd, parameters)); });
  torch::optim::SGD over_others({torch::ones({3}, torch::requires_grad())}, 0.1);
  torch::optim::SGD over_the_last({parameters.back().tensor}, 0.1);  // some rank may have no piece of the others to miss
  for (auto* const optimizer : {&over_others, &over_the_last}) {
    expect_error(parameters.front().name + " is not one of those that the optimizer was made for",
                 [&] { tw::ShardedOptimizer(sharded.reducer(), parameters, tw::optimizer_like(*optimizer, parameters)); });
  }
  const int last = world().size() - 1;
  const auto of_another_on_the_last = [&](const std::vector<tw::NamedTensor>& pieces) -> std::unique_ptr<torch::optim::Optimizer> {
    if (world().rank() == last) return std::make_unique<torch::optim::SGD>(over_others.param_groups(), torch::optim::SGDOptions(0.1));
    return tw::optimizer_like(sgd, parameters)(pieces);
  };
  expect_error("the optimizer was made for a tensor of shape [3] that is not a piece of the parameters",
               [&] { tw::ShardedOptimizer(sharded.reducer(), parameters, of_another_on_the_last); });
  if (world().size() > 1) {
    const double max_norm = world().rank() == 1 ? 1e-17 : 0;
    expect_error("options and parameters of the sharded optimizer must be the same",
                 [&] { tw::ShardedOptimizer(sharded.reducer(), parameters, tw::optimizer_like(sgd, parameters), {.max_gradient_norm = max_norm}); });
  }
  tw::ShardedOptimizer optimizer(sharded.reducer(), parameters, tw::optimizer_like(sgd, parameters));
  expect_error("reduced 0 times", [&] { optimizer.step(); });
  loss_of(net, my_samples(0)).backward();
  loss_of(net, my_samples(1)).backward();
  expect_error("reduced 2 times since the last update", [&] { optimizer.step(); });
  optimizer.skip();
  tw::LossScaler scaler;
  loss_of(net, my_samples(2)).backward();
  expect_error("check_finite", [&] { optimizer.step(scaler); });
  optimizer.step();
}

}  // namespace sharded_test
