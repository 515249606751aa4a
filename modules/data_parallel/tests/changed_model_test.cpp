// SPDX-License-Identifier: Apache-2.0
// A model changed after it was wrapped must cause an error at the next step on every rank. Replicas must not silently diverge.
#include "training.hpp"

#include <tw/data_parallel.hpp>

namespace changed_model_test {

using tw::testing::expect_error;
using tw::testing::make_net;
using tw::testing::Net;
using tw::testing::world;

struct Change {
  std::function<void(Net&)> apply;
  std::string says;
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all{
      {[](Net& net) { net->to(torch::kFloat); }, "] on cpu and was float64 ["},
      {[](Net& net) { net[3]->to(torch::kFloat); }, "] on cpu and was float64 ["},
      {[](Net& net) { net[0]->parameters()[1].requires_grad_(); }, "0.bias requires a gradient, unlike when"},
      {[](Net& net) { net->push_back(torch::nn::Linear(torch::nn::LinearOptions(3, 3))); }, "6.weight is a parameter of the module"},
  };
  return all;
}

/// The bias of the first layer is frozen.
Net half_frozen() {
  Net net = make_net();
  net[0]->parameters()[1].requires_grad_(false);
  return net;
}

// Runs each layer in its current dtype.
at::Tensor loss_of(const Net& net) {
  at::Tensor x = torch::ones({2, 1, 6, 6}, torch::kDouble);
  for (torch::nn::AnyModule& layer : *Net(net)) {
    const auto parameters = layer.ptr()->parameters();
    if (!parameters.empty()) x = x.to(parameters[0].scalar_type());
    x = layer.forward(x);
  }
  return x.sum();
}

TEST(ChangedModel, EndsTheNextBackwardPass) {
  for (const Change& change : changes()) {
    for (const bool synchronising : {true, false}) {
      Net net = half_frozen();
      tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean});
      loss_of(net).backward();
      change.apply(net);
      if (!synchronising && change.says.find("is a parameter") != std::string::npos) continue;  // found by the next pass that reduces
      std::optional<tw::DataParallel::NoSync> local;
      if (!synchronising) local.emplace(parallel.no_sync());
      expect_error([&] { loss_of(net).backward(); }, change.says);
    }
  }
}

// Autograd drops a parameter's hooks if its dtype changes, and does not restore them; nor does loading another model's values.
TEST(ChangedModel, IsReducedWhereItIsAsBefore) {
  Net net = make_net();
  tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::sum});
  const auto expect_reduced = [&](const std::string& when) {
    for (const bool local : {true, false}) {
      std::optional<tw::DataParallel::NoSync> pause;
      if (local) pause.emplace(parallel.no_sync());
      net->zero_grad();
      loss_of(net).backward();
      EXPECT_EQ(net[5]->parameters()[1].grad()[0].item<double>(), local ? 2 : 2 * world().size()) << when;
    }
  };
  net->to(torch::kFloat);
  net->to(torch::kDouble);
  expect_reduced("converted and back");
  std::stringstream file;
  torch::save(make_net(7), file);
  torch::load(net, file);
  expect_reduced("loaded");
}

TEST(ChangedModel, IsFoundWhereNothingThatWasWrappedIsTrained) {
  Net net = half_frozen();
  const tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean});
  for (at::Tensor& parameter : net->parameters()) parameter.requires_grad_(!parameter.requires_grad());
  expect_error([&] { loss_of(net).backward(); }, "0.bias requires a gradient, unlike when DataParallel was made: make it after all changes");
}

TEST(ChangedModel, EndsTheNextStepOfOtherStrategies) {
  for (const Change& change : changes()) {
    const auto expect_error_of = [&](const auto& make) {
      Net net = half_frozen();
      torch::optim::SGD sgd(net->parameters(), 0.1);
      const auto strategy = make(net, sgd);
      strategy->step();
      change.apply(net);
      expect_error([&] { strategy->step(); }, change.says);
    };
    expect_error_of([](const Net& net, auto&) { return std::make_unique<tw::LocalSgd>(world(), *net); });
    expect_error_of([](const Net& net, auto&) { return std::make_unique<tw::DiLoCo>(world(), *net); });
    if (change.says.find("is a parameter") != std::string::npos) continue;  // the new parameter is not in the optimizer
    expect_error_of([](const Net& net, auto& sgd) {
      return std::make_unique<tw::DistributedOptimizer>(world(), sgd, *net, tw::DistributedOptimizerOptions{.reduction = tw::Reduction::mean});
    });
  }
}

TEST(ChangedModel, AnOptimizerMayNotGrow) {
  Net net = make_net();
  std::vector<at::Tensor> parameters = net->parameters();
  const at::Tensor last = parameters.back();
  parameters.pop_back();
  torch::optim::SGD sgd(parameters, 0.1);
  tw::DistributedOptimizer optimizer(world(), sgd, *net, {.reduction = tw::Reduction::mean});
  sgd.add_param_group(torch::optim::OptimizerParamGroup(std::vector<at::Tensor>{last}));
  expect_error([&] { optimizer.step(); }, "the optimizer has 6 parameters, but had 5 when DistributedOptimizer was made");
}

// What is allowed in one process is allowed for replicas: freezing layers, loading other values, wrapping a model again.
TEST(ChangedModel, NeedNotBeAnError) {
  Net net = make_net();
  Net reference = make_net();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  torch::optim::SGD reference_sgd(reference->parameters(), 0.1);
  for (int round = 0; round < 2; ++round) {
    const tw::DataParallel parallel(world(), *net, {.reduction = tw::Reduction::mean});
    for (int step = 0; step < 3; ++step) {
      for (Net each : {net, reference}) {
        for (at::Tensor& parameter : each[0]->parameters()) parameter.requires_grad_(step == 0);
        at::Tensor bias = each[3]->parameters()[1];
        if (step == 1) bias.set_data(torch::full({7}, 0.25, torch::kDouble));
        (each.get() == net.get() ? sgd : reference_sgd).zero_grad();
        loss_of(each).backward();
        (each.get() == net.get() ? sgd : reference_sgd).step();
      }
    }
    for (Net each : {net, reference}) {
      for (at::Tensor& parameter : each[0]->parameters()) parameter.requires_grad_();
    }
  }
  tw::testing::expect_near(net, reference, "all ranks have the samples of the reference");
}

}  // namespace changed_model_test
