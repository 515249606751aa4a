// SPDX-License-Identifier: Apache-2.0
// A recurrent network for the trainer: equal to LibTorch's GRU and linear layer, on every rank.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <map>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/sequence_model.hpp>

namespace tw::layer_parallel {
namespace sequence_model_test {

using testing::world;
using torch::Tensor;

constexpr int64_t steps = 24;

RecurrentOptions exact(bool bidirectional) {
  return {.input_size = 2,
          .hidden_size = 5,
          .bidirectional = bidirectional,
          .coarsening = 3,
          .forward = {.iterations = steps},
          .backward = {.iterations = steps}};
}

Tensor loss_of(const Tensor& outputs) { return (outputs - 1).square().sum(); }

TEST(SequenceModel, IsLibTorchsGruAndLinearLayer) {
  for (const bool bidirectional : {false, true}) {
    SequenceModel net(world(), exact(bidirectional), {3});
    net.to(torch::kDouble);
    torch::nn::GRU gru(torch::nn::GRUOptions(2, 5).bidirectional(bidirectional).batch_first(true));
    torch::nn::Linear linear(bidirectional ? 10 : 5, 3);
    gru->to(torch::kDouble);
    linear->to(torch::kDouble);
    std::map<std::string, Tensor> theirs;
    for (const auto& p : gru->named_parameters()) theirs["recurrent." + p.key()] = p.value();
    for (const auto& p : linear->named_parameters()) theirs["linear." + p.key()] = p.value();
    {
      const torch::NoGradGuard no_grad;
      for (const auto& [name, tensor] : model_tensors(net).parameters) theirs.at(name).copy_(tensor);
    }
    torch::manual_seed(2);
    Tensor x = torch::randn({4, steps, 2}, torch::kDouble).set_requires_grad(true);
    Tensor ours = x.detach().clone().set_requires_grad(true);
    const auto [outputs, last] = gru->forward(x);
    const Tensor expected = linear->forward(last.transpose(0, 1).flatten(1));
    const Tensor found = net.forward(ours.flatten(1));  // the input is viewed as [n, steps, input_size]
    // 1e-12: hundreds of rounding errors of numbers of size 1
    EXPECT_LT((found - expected).abs().max().item<double>(), 1e-12);
    loss_of(expected).backward();
    loss_of(found).backward();
    EXPECT_LT((ours.grad() - x.grad()).abs().max().item<double>(), 1e-12 * std::max(1.0, x.grad().abs().max().item<double>()));
    for (const auto& [name, tensor] : model_tensors(net).parameters) {
      EXPECT_LT((tensor.grad() - theirs.at(name).grad()).abs().max().item<double>(),
                1e-12 * std::max(1.0, theirs.at(name).grad().abs().max().item<double>()))
          << name;
      const Tensor of_root = tensor.grad().clone();
      broadcast(world(), of_root, Rank(0));
      EXPECT_TRUE(of_root.equal(tensor.grad())) << name << ": ranks would drift apart";
    }
  }
}

// By central differences with h = 1e-6: the error is h^2 times a third derivative, plus rounding of 1e-16 / h.
TEST(SequenceModel, HasTheGradientOfItsLoss) {
  for (const Cell cell : {Cell::rnn, Cell::gru, Cell::lstm}) {
    RecurrentOptions options = exact(false);
    options.cell = cell;
    SequenceModel net(world(), options, {});
    net.to(torch::kDouble);
    torch::manual_seed(3);
    const Tensor x = torch::randn({2, steps, 2}, torch::kDouble);
    loss_of(net.forward(x)).backward();
    const torch::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model_tensors(net).parameters) {
      const Tensor first = tensor.flatten()[0];  // a view
      constexpr double h = 1e-6;
      first.add_(h);
      const double above = loss_of(net.forward(x)).item<double>();
      first.sub_(2 * h);
      const double below = loss_of(net.forward(x)).item<double>();
      first.add_(h);
      EXPECT_NEAR(tensor.grad().flatten()[0].item<double>(), (above - below) / (2 * h), 1e-7) << name;
    }
  }
}

TEST(SequenceModel, TakesOutputsOfAnyShapeAndRefusesInputsOfNone) {
  SequenceModel net(world(), {.input_size = 7, .hidden_size = 4}, {2, 3});
  const std::vector<int64_t> shape{5, 2, 3};
  EXPECT_EQ(net.forward(torch::zeros({5, 1, 28, 28})).sizes(), shape);
  EXPECT_THROW(net.forward(torch::zeros({5, 27})), ContractError);
  SequenceModel scalar(world(), {.hidden_size = 4}, {});
  EXPECT_EQ(scalar.forward(torch::zeros({5, 9})).sizes(), std::vector<int64_t>{5});
}

// sigmoid(b) is the share that stays, so a unit forgets after about 1 / (1 - sigmoid(b)) steps.
TEST(SequenceModel, RemembersAsLongAsItIsTold) {
  for (const Cell cell : {Cell::gru, Cell::lstm}) {
    const SequenceModel net(world(), {.cell = cell, .hidden_size = 200, .longest_memory = 500}, {});
    const Tensor bias = net.named_parameters()["recurrent.bias_ih_l0"].detach();
    const Tensor times = 1 / (1 - bias.narrow(0, 200, 200).sigmoid());
    EXPECT_GE(times.min().item<float>(), 1.99);
    EXPECT_LE(times.max().item<float>(), 500.1);
    EXPECT_NEAR(times.mean().item<float>(), 251, 40) << "uniform: a standard deviation of the mean is 10";
    if (cell == Cell::lstm) {
      EXPECT_TRUE(bias.narrow(0, 0, 200).equal(-bias.narrow(0, 200, 200)));
    }
  }
  EXPECT_THROW(SequenceModel(world(), {.cell = Cell::rnn, .longest_memory = 500}, {}), ContractError);
}

TEST(SequenceModel, PartsGetTheModesBackThatTheyHad) {
  SequenceModel net(world(), {.hidden_size = 4}, {});
  const auto part = net.named_children()["linear"];
  part->eval();
  for (int i = 0; i < 2; ++i) {
    net.set_training(true);
    EXPECT_TRUE(net.is_training());
    EXPECT_FALSE(part->is_training());
    net.set_training(false);
    EXPECT_FALSE(net.is_training());
  }
}

}  // namespace sequence_model_test
}  // namespace tw::layer_parallel
