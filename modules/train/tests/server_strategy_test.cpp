// SPDX-License-Identifier: Apache-2.0
// Training by parameter servers: resumed runs go on as they may, and synchronous ones have the result of `data`.
#include "regression_run.hpp"

#include <numeric>

namespace server_strategy_test {

using tw::testing::bitwise_equal;
using tw::testing::expect_close;
using tw::testing::options_for;
using tw::testing::run;
using tw::testing::run_adam;
using tw::testing::world;
using tw::train::Resume;
using tw::train::ServerAlgorithm;
using tw::train::StrategyKind;
using tw::train::StrategyOptions;

// Means of gradients are summed in the order in which they come.
TEST(ServerStrategy, SynchronousServersAreData) {
  const StrategyOptions sync{.kind = StrategyKind::parameter_server, .algorithm = ServerAlgorithm::sync};
  expect_close(run_adam(options_for("sync", sync)), run_adam(options_for("data", {})), 1e-12, "sync");
}

/// Ranks meet at the ends of epochs, which is where a run may be ended and gone on with. On one rank nothing depends on anybody's speed.
TEST(ServerStrategy, ServersTrainAndResume) {
  const auto rule = torch::optim::SGDOptions(0.02).momentum(0.5).nesterov(true);
  for (const auto algorithm :
       {ServerAlgorithm::downpour, ServerAlgorithm::easgd, ServerAlgorithm::eamsgd, ServerAlgorithm::ssp, ServerAlgorithm::sync}) {
    const std::string name = tw::concat("servers_", static_cast<int>(algorithm));
    const StrategyOptions strategy{.kind = StrategyKind::parameter_server, .period = 2, .algorithm = algorithm, .staleness = 1};
    const auto whole = run<torch::optim::SGD>(world(), options_for("whole", strategy), rule);
    EXPECT_TRUE(whole.summary.finished) << name;
    const tw::ConsistencyReport report = tw::check_consistent(world(), {{"first", whole.parameters.front()}, {"last", whole.parameters.back()}});
    EXPECT_TRUE(report.consistent) << name << ": " << report.describe();
    ASSERT_TRUE(whole.summary.servers.has_value());
    EXPECT_GT(whole.summary.servers->pushes_per_s, 0) << name;
    EXPECT_LE(whole.summary.exposed_comm_share, 1) << name;
    const auto& staleness = whole.summary.servers->staleness;
    const int64_t per_rank = algorithm == ServerAlgorithm::ssp || algorithm == ServerAlgorithm::sync ? 18 : 9;  // exchanges
    const int64_t last = algorithm == ServerAlgorithm::downpour ? 3 : 0;                                        // what is left at each epoch's end
    EXPECT_EQ(std::accumulate(staleness.begin(), staleness.end(), int64_t{0}), world().size() * (per_rank + last)) << name;

    auto options = options_for("resumed_" + name, strategy);
    options.checkpoint.every_epochs = 1;
    options.resume = Resume::fresh;
    EXPECT_EQ(run<torch::optim::SGD>(world(), options, rule, 7).summary.steps, 12) << name;
    options.resume = Resume::resume;
    const auto second = run<torch::optim::SGD>(world(), options, rule);
    EXPECT_TRUE(second.summary.finished) << name;
    EXPECT_EQ(second.summary.steps, 18) << name;
    if (world().size() == 1) {
      EXPECT_TRUE(bitwise_equal(second.parameters, whole.parameters)) << name;
    }
  }
}

// In the middle of a period, on one rank, where nothing depends on anybody's speed: three steps after the meeting at the end of an epoch of six.
TEST(ServerStrategy, AMiddleOfAPeriodIsResumedExactly) {
  const tw::Communicator alone = world().split(world().rank(), 0);
  const auto rule = torch::optim::SGDOptions(0.02).momentum(0.5);
  for (const auto algorithm : {ServerAlgorithm::downpour, ServerAlgorithm::easgd}) {
    const StrategyOptions strategy{.kind = StrategyKind::parameter_server, .period = 5, .algorithm = algorithm};
    const auto options_of = [&](const char* name) {
      auto options = options_for(tw::concat(name, static_cast<int>(algorithm), "_of_", world().rank()), strategy);
      options.checkpoint.every_steps = 3;
      options.checkpoint.keep = 9;
      options.resume = Resume::fresh;
      return options;
    };
    const auto whole = run<torch::optim::SGD>(alone, options_of("whole_middle_"), rule);
    auto options = options_of("middle_");
    (void)run<torch::optim::SGD>(alone, options, rule);
    std::filesystem::remove_all(options.folder() / "checkpoints" / "step_00000018");
    ASSERT_TRUE(std::filesystem::exists(options.folder() / "checkpoints" / "step_00000015"));
    options.resume = Resume::resume;
    const auto resumed = run<torch::optim::SGD>(alone, options, rule);
    EXPECT_LT(resumed.seen.size(), 31U) << "from step 15";
    EXPECT_TRUE(bitwise_equal(resumed.parameters, whole.parameters)) << static_cast<int>(algorithm);
  }
}

TEST(ServerStrategy, AModelMayHaveASubmoduleCalledServers) {
  struct Named : torch::nn::Module {
    Named() {
      servers = register_module("servers", torch::nn::Linear(4, 1));
      updates = servers->register_parameter("updates", torch::ones({2}));
      to(torch::kDouble);
    }
    at::Tensor forward(const at::Tensor& x) { return servers->forward(x) * updates.prod(); }
    torch::nn::Linear servers{nullptr};
    at::Tensor updates;
  };
  auto options = options_for("called_servers", {.kind = StrategyKind::parameter_server, .period = 2});
  options.checkpoint.every_epochs = 1;
  const auto data = tw::testing::squares(31);
  for (const int64_t epochs : {2, 3}) {
    const auto module = std::make_shared<Named>();
    tw::testing::place_module(module);
    const auto model = tw::train::model_of(module, [module](const at::Tensor& x) { return module->forward(x); });
    torch::optim::SGD sgd(model.tensors(), 0.01);
    options.epochs = epochs;
    options.resume = epochs == 2 ? Resume::fresh : Resume::resume;
    EXPECT_EQ(tw::train::Trainer(world(), model, sgd, tw::train::regression(), data, data, options).run().steps, 6 * epochs);
  }
}

TEST(ServerStrategy, ElasticMomentumIsNesterovs) {
  const StrategyOptions strategy{.kind = StrategyKind::parameter_server, .algorithm = ServerAlgorithm::eamsgd};
  EXPECT_THROW(run_adam(options_for("eamsgd", strategy)), tw::ContractError);
}

}  // namespace server_strategy_test
