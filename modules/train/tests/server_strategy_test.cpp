// SPDX-License-Identifier: Apache-2.0
// Training with parameter servers, and resuming it.
#include "regression_run.hpp"

#include <numeric>

namespace server_strategy_test {

using tw::testing::bitwise_equal;
using tw::testing::options_for;
using tw::testing::run;
using tw::testing::run_adam;
using tw::testing::world;
using tw::train::Meeting;
using tw::train::ReplicaOptions;
using tw::train::Resume;
using tw::train::ServerAlgorithm;

/// Ranks meet at the end of an epoch, where a run may be ended and resumed. On one rank nothing depends on timing.
TEST(ServerStrategy, ServersTrainAndResume) {
  const auto rule = torch::optim::SGDOptions(0.02).momentum(0.5).nesterov(true);
  for (const auto algorithm : {ServerAlgorithm::downpour, ServerAlgorithm::easgd, ServerAlgorithm::eamsgd, ServerAlgorithm::ssp}) {
    const std::string name = tw::concat("servers_", static_cast<int>(algorithm));
    const ReplicaOptions servers{.meet = Meeting::parameter_server, .period = 2, .algorithm = algorithm, .staleness = 1};
    const auto whole = run<torch::optim::SGD>(world(), options_for("whole", servers), rule);
    EXPECT_TRUE(whole.summary.finished) << name;
    const tw::ConsistencyReport report = tw::check_consistent(world(), {{"first", whole.parameters.front()}, {"last", whole.parameters.back()}});
    EXPECT_TRUE(report.consistent) << name << ": " << report.describe();
    ASSERT_TRUE(whole.summary.servers.has_value());
    EXPECT_GT(whole.summary.servers->pushes_per_s, 0) << name;
    EXPECT_LE(whole.summary.exposed_comm_share, 1) << name;
    const auto& staleness = whole.summary.servers->staleness;
    const int64_t per_rank = algorithm == ServerAlgorithm::ssp ? 18 : 9;  // exchanges
    const int64_t last = algorithm == ServerAlgorithm::downpour ? 3 : 0;  // remainder at each epoch's end
    EXPECT_EQ(std::accumulate(staleness.begin(), staleness.end(), int64_t{0}), world().size() * (per_rank + last)) << name;

    auto options = options_for("resumed_" + name, servers);
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

/// A run of a model that has parts with the names of the servers' state in checkpoints.
struct Ran {
  std::vector<at::Tensor> parameters;
  tw::train::Summary summary;
  std::vector<double> seen;
};
Ran run_named_servers(const tw::train::Options& options) {
  torch::manual_seed(static_cast<uint64_t>(world().rank()));
  torch::nn::Sequential net;
  net->push_back("servers", torch::nn::Linear(4, 8));
  net->push_back("servers_", torch::nn::Linear(8, 1));
  net->to(torch::kDouble);
  const tw::train::Model model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(0.02).momentum(0.5).nesterov(true));
  const auto data = tw::testing::squares(31);
  tw::train::Trainer trainer(world(), model, sgd, tw::train::regression(), data, data, options);
  tw::testing::Witness witness(tw::testing::never);
  trainer.add(witness);
  const auto summary = trainer.run();
  return {tw::testing::copies(model), summary, witness.seen};
}

/// Resumes from a checkpoint at the end of neither an epoch nor a period. With several workers, the timing of others' updates varies.
TEST(ServerStrategy, ServersResumeInTheMiddleOfAPeriod) {
  for (const auto algorithm : {ServerAlgorithm::downpour, ServerAlgorithm::easgd, ServerAlgorithm::ssp}) {
    const std::string name = tw::concat("servers_middle_", static_cast<int>(algorithm));
    auto options = options_for(name, ReplicaOptions{.meet = Meeting::parameter_server, .period = 4, .algorithm = algorithm, .staleness = 2});
    options.checkpoint.every_steps = 5;
    options.checkpoint.keep = 9;
    options.resume = Resume::fresh;
    const Ran whole = run_named_servers(options);
    if (world().rank() == 0) {
      std::vector<std::filesystem::path> steps;
      for (const auto& each : std::filesystem::directory_iterator(options.folder() / "checkpoints")) steps.push_back(each.path());
      std::ranges::sort(steps);
      for (size_t i = 1; i < steps.size(); ++i) std::filesystem::remove_all(steps[i]);
    }
    barrier(world());
    options.resume = Resume::resume;
    const Ran resumed = run_named_servers(options);
    EXPECT_EQ(resumed.summary.steps, whole.summary.steps) << name;
    EXPECT_TRUE(std::ranges::equal(resumed.seen, std::vector(whole.seen.end() - std::ssize(resumed.seen), whole.seen.end()))) << name;
    EXPECT_LT(resumed.seen.size(), whole.seen.size()) << name;
    for (const at::Tensor& each : resumed.parameters) EXPECT_TRUE(each.isfinite().all().item<bool>()) << name;
    if (world().size() == 1) {
      EXPECT_TRUE(bitwise_equal(resumed.parameters, whole.parameters)) << name;
    }
  }
}

TEST(ServerStrategy, ElasticMomentumIsNesterovs) {
  const ReplicaOptions servers{.meet = Meeting::parameter_server, .algorithm = ServerAlgorithm::eamsgd};
  EXPECT_THROW(run_adam(options_for("eamsgd", servers)), tw::ContractError);
}

}  // namespace server_strategy_test
