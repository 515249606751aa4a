// SPDX-License-Identifier: Apache-2.0
// Passes of a fully sharded model other than one forward pass and one backward(), against one process.
#include <c10/core/InferenceMode.h>

#include <tw/autograd/autocast.hpp>

#include "message_of.hpp"
#include "sharded_training.hpp"

namespace sharded_passes_test {

using namespace tw::testing::sharded;
using tw::testing::message_of;
using tw::testing::world;
using Tensors = std::vector<at::Tensor>;

/// Loss of all samples, or of this rank's, at a step.
using Loss = std::function<at::Tensor(int64_t step)>;

/// `pass` computes the gradients of a step from a model and its loss.
void expect_steps_equal(const std::function<void(torch::nn::Module& net, const Loss& loss, int64_t step)>& pass) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto reference = plain().make();
    torch::optim::SGD reference_optimizer(reference->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    const auto net = plain().make();
    tw::FullySharded sharded(world(), *net, options);
    torch::optim::SGD optimizer(sharded.slices(), torch::optim::SGDOptions(0.05).momentum(0.9));
    for (int64_t step = 0; step < 3; ++step) {
      reference_optimizer.zero_grad();
      optimizer.zero_grad();
      pass(*reference, [&](int64_t of) { return plain().loss(*reference, all_samples(of), of); }, step);
      pass(*net, [&](int64_t of) { return plain().loss(*net, my_samples(of), of); }, step);
      reference_optimizer.step();
      optimizer.step();
    }
    expect_equal(*net, *reference, text_of(options));
  }
}

TEST(ShardedPasses, BackwardTwiceThroughARetainedGraph) {
  expect_steps_equal([](torch::nn::Module&, const Loss& loss, int64_t step) {
    const at::Tensor value = loss(step);
    value.backward({}, true);
    value.backward();
  });
}

TEST(ShardedPasses, LossesThatShareAGraph) {
  expect_steps_equal([](torch::nn::Module& net, const Loss& loss, int64_t step) {
    const at::Tensor shared = net.named_parameters()["0.weight"].tanh();  // not the mean of the ranks' products
    const at::Tensor first = loss(step) + shared.sum() / 10;
    const at::Tensor second = loss(step + 1) * 2 + shared.square().sum() / 10;
    first.backward({}, true);
    second.backward();
  });
}

TEST(ShardedPasses, SeveralForwardPassesBeforeOneBackwardPass) {
  expect_steps_equal([](torch::nn::Module&, const Loss& loss, int64_t step) {
    const at::Tensor first = loss(step);
    const at::Tensor second = loss(step + 1);
    {
      const at::NoGradGuard no_grad;
      loss(step + 2);
    }
    (second + first * 3).backward();
  });
}

TEST(ShardedPasses, AGraphThatIsDropped) {
  expect_steps_equal([](torch::nn::Module&, const Loss& loss, int64_t step) {
    loss(step);
    loss(step + 1).backward();
  });
}

TEST(ShardedPasses, HooksOfParametersAndActivations) {
  expect_steps_equal([](torch::nn::Module& net, const Loss& loss, int64_t step) {
    at::Tensor weight = net.named_parameters()["3.weight"];
    const unsigned hook = weight.register_hook([](const at::Tensor& gradient) { return gradient * 3; });
    at::Tensor value = loss(step);
    value.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
    value.backward();
    weight.remove_hook(hook);
  });
}

TEST(ShardedPasses, EvaluationInInferenceMode) {
  expect_steps_equal([](torch::nn::Module&, const Loss& loss, int64_t step) {
    at::Tensor before;
    {
      const c10::InferenceMode inference;
      before = loss(step);
    }
    const at::Tensor value = loss(step);
    EXPECT_TRUE(value.detach().equal(before));
    value.backward();
  });
}

TEST(ShardedPasses, ParametersThatAreFrozenForAStep) {
  expect_steps_equal([](torch::nn::Module& net, const Loss& loss, int64_t step) {
    at::Tensor weight = net.named_parameters()["3.weight"];
    weight.requires_grad_(step != 1);
    loss(step).backward();
    weight.requires_grad_(true);
  });
}

// Results of autograd::grad() are this rank's own; slices receive nothing.
TEST(ShardedPasses, GradientsThatAreAskedFor) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto reference = plain().make();
    const auto net = plain().make();
    tw::FullySharded sharded(world(), *net, options);
    const auto gradients = [](torch::nn::Module& module) {
      const at::Tensor x = my_samples(0).requires_grad_();
      const at::Tensor loss = plain().loss(module, x, 0);
      const auto parameters = module.named_parameters();
      return torch::autograd::grad({loss}, {parameters["0.weight"], parameters["5.bias"], parameters["1.weight"], x});
    };
    const Tensors expected = gradients(*reference);
    const Tensors found = gradients(*net);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << text_of(options) << ", " << i;  // the same operators
    for (const at::Tensor& slice : sharded.slices()) EXPECT_FALSE(slice.grad().defined());
  }
}

// By a parameter: its gradient has a graph.
TEST(ShardedPasses, SecondDerivativesByParameters) {
  expect_steps_equal([](torch::nn::Module& net, const Loss& loss, int64_t step) {
    const at::Tensor weight = net.named_parameters()["3.weight"];
    const at::Tensor gradient = torch::autograd::grad({weight.tanh().matmul(weight.t()).square().sum()}, {weight}, {}, true, true)[0];
    (loss(step) + gradient.square().mean() / 10).backward();
  });
}

// The values are right, but slices have no graph. For second derivatives, compute the first ones with autograd::grad().
TEST(ShardedPasses, AGraphOfGradientsIsNotInSlices) {
  expect_steps_equal([](torch::nn::Module& net, const Loss& loss, int64_t step) {
    loss(step).backward({}, true, true);
    for (at::Tensor& parameter : net.parameters()) {  // of the plain model, as LibTorch advises
      if (parameter.grad().defined()) parameter.mutable_grad() = parameter.grad().detach();
    }
  });
}

TEST(ShardedPasses, ReductionsThatArePutOff) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto reference = plain().make();
    const auto net = plain().make();
    tw::FullySharded sharded(world(), *net, options);
    for (int64_t pass = 0; pass < 3; ++pass) plain().loss(*reference, all_samples(pass), pass).backward();
    {
      const auto pause = sharded.parallel().no_sync();
      for (int64_t pass = 0; pass < 2; ++pass) plain().loss(*net, my_samples(pass), pass).backward();
    }
    for (const at::Tensor& slice : sharded.slices()) EXPECT_FALSE(slice.grad().defined());
    plain().loss(*net, my_samples(2), 2).backward();
    torch::optim::SGD(reference->parameters(), 0.1).step();
    torch::optim::SGD(sharded.slices(), 0.1).step();
    expect_equal(*net, *reference, text_of(options));
  }
}

// The layer used twice has one cast, which LibTorch caches. Halves and quarters of gradients are exact, and so is their mean. Thirds are not, and the
// smaller type would amplify that.
TW_TEST_ON(ShardedPasses, UnderAutocast, {.most = 2}) {
  for (const tw::FullyShardedOptions& options : modes()) {
    const auto make = [] {
      torch::manual_seed(5);
      return torch::nn::Sequential(torch::nn::Linear(8, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
    };
    auto reference = make();
    torch::optim::SGD reference_optimizer(reference->parameters(), 0.05);
    auto net = make();
    tw::FullySharded sharded(world(), *net, options);
    torch::optim::SGD optimizer(sharded.slices(), 0.05);
    const auto loss_of = [](torch::nn::Sequential& module, const at::Tensor& x) {
      const tw::AutocastScope scope(tw::AutocastState().on(at::kCPU, at::kBFloat16));
      const at::Tensor y = module->forward(torch::tanh(module[0]->as<torch::nn::Linear>()->forward(x.to(torch::kFloat))));
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      return y.to(torch::kFloat).square().mean();
    };
    for (int64_t step = 0; step < 3; ++step) {
      reference_optimizer.zero_grad();
      optimizer.zero_grad();
      for (int rank = 0; rank < world().size(); ++rank) (loss_of(reference, samples_of(step, rank)) / world().size()).backward();
      loss_of(net, my_samples(step)).backward();
      reference_optimizer.step();
      optimizer.step();
    }
    for (size_t i = 0; i < net->parameters().size(); ++i) {
      EXPECT_TRUE(value_of(net->parameters()[i]).equal(reference->parameters()[i])) << text_of(options) << ", " << i;
    }
  }
}

// A change between a forward pass and its backward pass is an error, as in LibTorch's own check: gradient and loss would belong to different weights.
TEST(ShardedPasses, SlicesThatChangedAreFoundByTheBackwardPass) {
  using Slices = std::vector<at::Tensor>;
  const std::vector<std::function<void(tw::FullySharded&, const Slices&)>> ways{
      [](tw::FullySharded&, const Slices& slices) { torch::optim::SGD(slices, 0.1).step(); },
      [](tw::FullySharded&, const Slices& slices) { torch::optim::Adam(slices, 0.1).step(); },
      [](tw::FullySharded&, const Slices& slices) {
        const torch::NoGradGuard no_grad;
        for (at::Tensor slice : slices) slice.mul_(2);
      },
      [](tw::FullySharded& sharded, const Slices&) {
        for (const tw::NamedShard& shard : sharded.shards()) shard.tensor.mul_(2);
      },
      [](tw::FullySharded& sharded, const Slices&) { sharded.slices_changed(); },
  };
  for (const tw::FullyShardedOptions& options : modes()) {
    for (size_t way = 0; way < ways.size(); ++way) {
      const auto net = plain().make();
      tw::FullySharded sharded(world(), *net, options);
      plain().loss(*net, my_samples(0), 0).backward();
      const at::Tensor loss = plain().loss(*net, my_samples(1), 1);
      ways[way](sharded, sharded.slices());
      const std::string error = message_of([&] { loss.backward(); });
      EXPECT_NE(error.find("modified by an inplace operation"), std::string::npos) << text_of(options) << ", way " << way << ": " << error;
      world().barrier();
    }
  }
}

// Slices follow the usual operations on a module.
TEST(ShardedPasses, GradientsThatTheModuleDropped) {
  expect_steps_equal([](torch::nn::Module& net, const Loss& loss, int64_t step) {
    loss(step).backward();
    net.zero_grad();
    loss(step + 1).backward();
    loss(step + 2).backward();
  });
}

// A parameter's hook throws on all ranks: that pass is lost, and the next one is as if it had not happened.
TEST(ShardedPasses, GoOnAfterAnExceptionInABackwardPass) {
  ShardedNet f;
  ShardedNet undisturbed;
  at::Tensor weight = f.parameter("3.weight");
  const unsigned hook = weight.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("mine"); });
  EXPECT_EQ(message_of([&] { f.loss().backward(); }).substr(0, 4), "mine");
  weight.remove_hook(hook);
  f.optimizer.zero_grad();
  f.loss().backward();
  undisturbed.loss().backward();
  const auto expected = undisturbed.sharded.slices();
  const auto found = f.sharded.slices();
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].grad().equal(expected[i].grad())) << i;
}

}  // namespace sharded_passes_test
