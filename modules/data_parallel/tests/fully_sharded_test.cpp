// SPDX-License-Identifier: Apache-2.0
// A fully sharded model trains like the plain one: various models and optimizers, half precision, and a second axis of ranks.
#include "sharded_training.hpp"

namespace fully_sharded_test {

using namespace tw::testing::sharded;
using tw::testing::world;

struct TiedImpl : torch::nn::Module {
  TiedImpl() : embedding(register_module("embedding", torch::nn::Embedding(11, 6))), inner(register_module("inner", torch::nn::Linear(6, 6))) {
    weight = register_parameter("weight", embedding->weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor tokens = (x.abs() * 5).to(torch::kLong).remainder(11);
    return torch::log_softmax(torch::matmul(torch::tanh(inner->forward(embedding->forward(tokens))), weight.t()), -1);
  }
  torch::nn::Embedding embedding;
  torch::nn::Linear inner;
  at::Tensor weight;
};

struct BranchesImpl : torch::nn::Module {
  BranchesImpl() {
    for (int i = 0; i < 4; ++i) layers->push_back(torch::nn::Linear(8, 8));
    register_module("layers", layers);
  }
  at::Tensor forward(at::Tensor x, int64_t step) {
    for (int64_t i = 0; i < 4; ++i) {
      if (step % 3 != i) x = torch::tanh(layers->at<torch::nn::LinearImpl>(static_cast<size_t>((i + step) % 4)).forward(x));
    }
    return x;
  }
  torch::nn::ModuleList layers;
};

struct TwiceImpl : torch::nn::Module {
  TwiceImpl() : a(register_module("a", torch::nn::Linear(8, 8))), b(register_module("b", torch::nn::Linear(8, 8))) {}
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < 3; ++i) x = torch::tanh(b->forward(torch::tanh(a->forward(x))));
    return x;
  }
  torch::nn::Linear a, b;
};

struct LstmImpl : torch::nn::Module {
  LstmImpl() : lstm(register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(2, 5).num_layers(2).batch_first(true).bidirectional(true)))) {}
  at::Tensor forward(const at::Tensor& x) { return std::get<0>(lstm->forward(x.view({-1, 4, 2}))); }
  torch::nn::LSTM lstm;
};

struct ConvolutionsImpl : torch::nn::Module {
  ConvolutionsImpl()
      : first(register_module("first", torch::nn::Conv1d(1, 3, 3))),
        norm(register_module("norm", torch::nn::GroupNorm(1, 3))),
        last(register_module("last", torch::nn::Conv1d(3, 2, 3))) {}
  at::Tensor forward(const at::Tensor& x) { return last->forward(torch::relu(norm->forward(first->forward(x.unsqueeze(1))))); }
  torch::nn::Conv1d first;
  torch::nn::GroupNorm norm;
  torch::nn::Conv1d last;
};

struct AttentionImpl : torch::nn::Module {
  AttentionImpl()
      : layer(register_module("layer",
                              torch::nn::TransformerEncoderLayer(torch::nn::TransformerEncoderLayerOptions(4, 2).dim_feedforward(9).dropout(0)))) {}
  at::Tensor forward(const at::Tensor& x) { return layer->forward(x.view({-1, 2, 4}).transpose(0, 1)); }
  torch::nn::TransformerEncoderLayer layer;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      plain(),
      kind_of("frozen",
              [] {
                auto net = layers();
                net->named_parameters()["3.weight"].requires_grad_(false);
                net->named_parameters()["0.bias"].requires_grad_(false);
                return net;
              }),
      kind_of<TiedImpl>("tied embedding"),
      {"branches", making([] { return torch::nn::ModuleHolder<BranchesImpl>(std::make_shared<BranchesImpl>()); }),
       [](torch::nn::Module& module, const at::Tensor& x, int64_t step) {
         return dynamic_cast<BranchesImpl&>(module).forward(x, step).square().mean();
       }},
      kind_of<TwiceImpl>("used twice"),
      kind_of<LstmImpl>("lstm"),
      kind_of<ConvolutionsImpl>("convolutions"),
      kind_of<AttentionImpl>("attention"),
  };
  return all;
}

// With SGD, since some gradients are only rounding errors, e.g. that of the keys' bias, and Adam would divide rounding by rounding.
TEST(FullySharded, EqualsTheWholeModel) {
  for (const Kind& kind : kinds()) {
    for (const tw::FullyShardedOptions& options : modes()) expect_training_equal(kind, "SGD", options);
  }
}

TEST(FullySharded, TakesEveryElementwiseOptimizer) {
  for (const std::string& optimizer : tw::testing::elementwise_optimizers) {
    for (const tw::FullyShardedOptions& options : modes()) expect_training_equal(plain(), optimizer, options);
  }
}

TEST(FullySharded, AccumulatesInSlices) {
  for (const tw::FullyShardedOptions& options : modes()) expect_training_equal(plain(), "Adam", options, 3);
}

TW_TEST_ON(FullySharded, ReplicatesOverAnotherAxis, {.least = 4}) {
  const tw::Communicator shards = world().split(world().rank() / 2, 0);
  const tw::Communicator replicas = world().split(world().rank() % 2, 0);
  const bool may_share = tw::testing::device().is_cpu() && tw::find_topology(shards).nodes == 1;
  for (const Kind& kind : kinds()) {
    for (const tw::Reduction reduction : {tw::Reduction::mean, tw::Reduction::sum}) {
      const bool one_copy = may_share && reduction == tw::Reduction::mean;
      const auto reference = kind.make();
      torch::optim::SGD reference_optimizer(each_once(reference->parameters()), 0.1);
      const auto net = kind.make();
      tw::FullySharded sharded(shards, *net, {.reduction = reduction, .unit_bytes = 300, .one_copy_per_node = one_copy, .check_finite = true},
                               {.replicas = &replicas});
      torch::optim::SGD optimizer(sharded.slices(), 0.1);
      for (int64_t step = 0; step < steps; ++step) {
        reference_optimizer.zero_grad();
        optimizer.zero_grad();
        kind.loss(*reference, all_samples(step), step).backward();
        const at::Tensor loss = kind.loss(*net, my_samples(step), step);
        (reduction == tw::Reduction::mean ? loss : loss / 4).backward();
        EXPECT_TRUE(sharded.gradients_finite());
        reference_optimizer.step();
        optimizer.step();
      }
      expect_equal(*net, *reference, kind.name);
    }
  }
}

TW_TEST_ON(FullySharded, HearsOfGradientsThatAreNotFiniteOnAnotherAxis, {.least = 4}) {
  const tw::Communicator shards = world().split(world().rank() / 2, 0);
  const tw::Communicator replicas = world().split(world().rank() % 2, 0);
  const auto net = plain().make();
  tw::FullySharded sharded(shards, *net, {.reduction = tw::Reduction::mean, .check_finite = true}, {.replicas = &replicas});
  const double factor = world().rank() == 3 ? std::numeric_limits<double>::infinity() : 1.0;
  (plain().loss(*net, my_samples(0), 0) * factor).backward();
  EXPECT_FALSE(sharded.gradients_finite());
}

// The reference is written by hand: master weights, their rounded copies, and gradients of these. All ranks have the same samples, so each
// contributes 1/P of its gradient, rounded. Halves are summed in float32 on the CPU; on a device with 2 and 4 ranks, where sums of equal parts are
// exact.
TEST(FullySharded, GathersInHalfPrecision) {
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    torch::manual_seed(3);
    auto net = layers();
    torch::manual_seed(3);
    auto reference = layers();
    tw::testing::place_module(net);
    tw::testing::place_module(reference);
    std::vector<at::Tensor> masters;
    for (const at::Tensor& parameter : reference->parameters()) masters.push_back(parameter.detach().clone());
    reference->to(dtype);
    torch::optim::SGD reference_optimizer(masters, 0.05);
    tw::FullySharded sharded(world(), *net, {.reduction = tw::Reduction::mean, .unit_bytes = 300, .compute_dtype = dtype});
    torch::optim::SGD optimizer(sharded.slices(), 0.05);
    for (const at::Tensor& slice : sharded.slices()) EXPECT_EQ(slice.scalar_type(), torch::kFloat);
    for (int64_t step = 0; step < 4; ++step) {
      const at::Tensor x = samples_of(step).narrow(0, 0, each).to(dtype);
      optimizer.zero_grad();
      reference->zero_grad();
      net->forward(x).square().mean().backward();
      reference->forward(x).square().mean().backward();
      optimizer.step();
      const at::NoGradGuard no_grad;
      const auto parameters = reference->parameters();
      for (size_t i = 0; i < masters.size(); ++i) {
        const at::Tensor part = parameters[i].grad() * (1.0 / world().size());
        masters[i].mutable_grad() = (part.to(torch::kFloat) * world().size()).to(dtype).to(torch::kFloat);
      }
      reference_optimizer.step();
      for (size_t i = 0; i < masters.size(); ++i) {
        const at::Tensor ours = net->parameters()[i];
        EXPECT_EQ(ours.scalar_type(), dtype);
        parameters[i].copy_(masters[i]);
        EXPECT_TRUE(value_of(ours).equal(parameters[i])) << step << ' ' << i;
      }
    }
  }
}

}  // namespace fully_sharded_test
