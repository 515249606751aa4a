// SPDX-License-Identifier: Apache-2.0
// Misuse that recurrent networks over time refuse, on every rank and without a hang; faults that they survive; and sequences of every length.
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <functional>
#include <string>
#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/layer_parallel/sequence_model.hpp>
#include <tw/mpi/error.hpp>
#include <utility>
#include <vector>

namespace tw::layer_parallel {
namespace recurrent_misuse_test {

using testing::world;
using torch::Tensor;

constexpr int64_t steps = 32;
const RecurrentOptions small{.input_size = 2, .hidden_size = 5};

/// The message that `f` throws on this rank; empty if it does not throw.
std::string thrown(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

Tensor block_of(const Recurrent& net, int64_t of_steps, int64_t batch = 3) {
  torch::manual_seed(5);
  const auto [begin, end] = net.block(of_steps);
  return torch::randn({of_steps, batch, 2}).narrow(0, begin, end - begin).clone();
}

/// Like torch::nn::GRU, whose saved tensors are checked by autograd.
TEST(RecurrentMisuse, TensorsThatChangeBeforeTheBackwardPassAreNamed) {
  Recurrent net(world(), small);
  const Tensor block = block_of(net, steps);
  const auto parameters = net.named_parameters();
  for (const auto& [name, tensor] : std::vector<std::pair<std::string, Tensor>>{{"block", block},
                                                                                {"weight_ih_l0", parameters["weight_ih_l0"]},
                                                                                {"weight_hh_l0", parameters["weight_hh_l0"]},
                                                                                {"bias_hh_l0", parameters["bias_hh_l0"]}}) {
    const Tensor outputs = net.forward(block, steps).hidden;
    world().barrier();
    {
      const torch::NoGradGuard no_gradients;
      tensor.mul_(1.5);
    }
    EXPECT_NE(thrown([&] { outputs.sum().backward(); }).find("'" + name + "' was changed in place"), std::string::npos) << name;
    world().barrier();
  }
  net.zero_grad();
  net.forward(block, steps).hidden.sum().backward();
  Recurrent other(world(), small);
  other.load(net);
  other.forward(block, steps).hidden.sum().backward();
  for (const auto& p : net.named_parameters()) EXPECT_TRUE(p.value().grad().equal(other.named_parameters()[p.key()].grad())) << p.key();
}

/// Changing a first state afterwards is harmless, because it is used once.
TEST(RecurrentMisuse, FirstStatesMayChange) {
  const auto gradient = [](bool changes) {
    Recurrent net(world(), small);
    const Tensor block = block_of(net, steps);
    const Tensor hidden = torch::ones({1, 3, 5});
    const Tensor outputs = net.forward(block, steps, {.hidden = hidden}).hidden;
    if (changes) hidden.mul_(7);
    outputs.sum().backward();
    return net.parameters()[1].grad().clone();
  };
  EXPECT_TRUE(gradient(true).equal(gradient(false)));
}

TW_TEST_ON(RecurrentMisuse, WhatDiffersBetweenRanksIsNamed, {.least = 2}) {
  Recurrent net(world(), small);
  const bool other = world().rank() == 1;
  const auto expect = [&](const std::string& text, const std::function<void()>& call) {
    const std::string said = thrown(call);
    EXPECT_NE(said.find(text), std::string::npos) << said;
    EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
  };
  const auto lengths = [](int64_t last) { return torch::tensor({32, 20, static_cast<int>(last)}, torch::kLong); };
  expect("batch", [&] { net.forward(block_of(net, steps, other ? 4 : 3), steps); });
  expect("lengths", [&] { net.forward(block_of(net, steps), steps, {.lengths = lengths(other ? 8 : 7)}); });
  expect("hidden", [&] { net.forward(block_of(net, steps), steps, {.hidden = torch::full({1, 3, 5}, other ? 2.0 : 1.0)}); });
  expect("steps", [&] { net.forward(block_of(net, other ? 40 : steps), other ? 40 : steps); });
  expect("the block is", [&] { net.forward(other ? torch::ones({1, 1, 1}) : block_of(net, steps), steps); });
  SequenceModel model(world(), small, {3});
  expect("the inputs of a SequenceModel", [&] { model.forward(torch::ones({2, other ? 7 : 8})); });
  expect("requires a gradient", [&] { model.forward(torch::ones({2, 8}).set_requires_grad(other)); });
  EXPECT_EQ(thrown([&] { net.forward(block_of(net, steps), steps); }), "");
  EXPECT_EQ(thrown([&] { model.forward(torch::ones({2, 8})).sum().backward(); }), "");
}

TW_TEST_ON(RecurrentMisuse, ANetworkMakesItsNextPassAfterAnException, {.least = 2}) {
  RecurrentOptions options = small;
  options.bidirectional = true;
  SequenceModel net(world(), options, {3});
  const Tensor inputs = torch::ones({2, 2 * steps});
  const Tensor first = net.forward(inputs);
  const Tensor loss = first.sum();
  world().barrier();
  if (world().rank() == 1) {
    const torch::NoGradGuard no_gradients;
    net.named_parameters()["recurrent.weight_hh_l0"].mul_(1);
  }
  EXPECT_NE(thrown([&] { loss.backward(); }).find("was changed in place"), std::string::npos) << "there, or as the reason why it was revoked";
  net.zero_grad();
  const Tensor second = net.forward(inputs);
  EXPECT_TRUE(second.equal(first));
  second.sum().backward();
  for (const Tensor& p : net.parameters()) EXPECT_TRUE(p.grad().isfinite().all().item<bool>());
}

/// 17 steps are two whole intervals and a single step, for up to four ranks.
TEST(RecurrentMisuse, EveryLengthCanBeUsed) {
  using Lengths = std::vector<int64_t>;
  for (const auto& [c, lengths] : {std::pair<int64_t, Lengths>(3, {4, 7, 10}), std::pair<int64_t, Lengths>(8, {1, 9, 17, 18, 25})}) {
    RecurrentOptions options = small;
    options.bidirectional = true;
    options.coarsening = c;
    options.min_coarse = 1;
    options.forward.iterations = options.backward.iterations = 6;  // four intervals, and one more with skip
    Recurrent net(world(), options);
    torch::nn::GRU gru(torch::nn::GRUOptions(2, 5).bidirectional(true));
    net.store(*gru);
    for (const int64_t length : lengths) {
      const auto [begin, end] = net.block(length);
      ASSERT_LE(begin, end) << length;
      torch::manual_seed(5);
      const Tensor x = torch::randn({length, 3, 2});
      const RecurrentOutput found = net.forward(x.narrow(0, begin, end - begin), length);
      const Tensor expected = std::get<1>(gru->forward(x));
      // float32, over 25 steps of numbers of size 1
      EXPECT_LE((found.hidden - expected).abs().max().item<float>(), 1e-5) << length << " steps in intervals of " << c;
      net.zero_grad();
      gru->zero_grad();
      found.hidden.sum().backward();
      expected.sum().backward();
      for (const auto& p : net.named_parameters()) {
        EXPECT_LE((p.value().grad() - gru->named_parameters()[p.key()].grad()).abs().max().item<float>(), 1e-3) << length << ' ' << p.key();
      }
    }
  }
}

}  // namespace recurrent_misuse_test
}  // namespace tw::layer_parallel
