// SPDX-License-Identifier: Apache-2.0
// Against the plain call: outputs and gradients to the bit, unless said otherwise.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>
#include <stdexcept>
#include <thread>
#include <tw/base/error.hpp>
#include <tw/tensor/recomputed.hpp>

#include "message_of.hpp"
#include "plain_call.hpp"

namespace recomputed_test {

using tw::recomputed;
using tw::testing::message_of;
using tw::testing::Plain;
using tw::testing::Recomputed;
using tw::testing::same_passes;
using Tensors = std::vector<at::Tensor>;

class RecomputedIn : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::TensorOptions options() const { return at::dtype(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, RecomputedIn, ::testing::Values(at::kFloat, at::kDouble), [](const auto& of) { return c10::toString(of.param); });

template <class Holder>
Holder of_dtype(Holder module, at::ScalarType dtype) {
  module->to(dtype);
  return module;
}

TEST_P(RecomputedIn, AChainOfSegments) {
  torch::manual_seed(1);
  std::vector<torch::nn::Linear> layers;
  for (int i = 0; i < 4; ++i) layers.push_back(of_dtype(torch::nn::Linear(6, 6), GetParam()));
  Tensors trained;
  for (auto& each : layers) trained.insert(trained.end(), {each->weight, each->bias});
  same_passes({torch::randn({5, 6}, options())}, trained, [&](const auto& call, const Tensors& inputs) {
    at::Tensor x = inputs[0];
    for (auto& each : layers) x = call([&](const at::Tensor& h) { return each->forward(h).tanh() + h; }, x);
    return x;
  });
}

// Gradients of the weights come through the outer graph only: no input needs one.
TEST_P(RecomputedIn, CapturedParametersWhereNoInputNeedsAGradient) {
  torch::manual_seed(1);
  torch::nn::Linear layer = of_dtype(torch::nn::Linear(6, 3), GetParam());
  const at::Tensor x = torch::randn({5, 6}, options());
  same_passes({}, layer->parameters(),
              [&](const auto& call, const Tensors&) { return call([&](const at::Tensor& h) { return layer(h).sin(); }, x); });
}

TEST_P(RecomputedIn, AnLstmWithDropoutReturnsTuplesOfTuples) {
  torch::manual_seed(1);
  torch::nn::LSTM lstm = of_dtype(torch::nn::LSTM(torch::nn::LSTMOptions(4, 5).num_layers(2).dropout(0.5)), GetParam());
  same_passes({torch::randn({7, 3, 4}, options()), torch::randn({2, 3, 5}, options())}, lstm->parameters(), [&](const auto& call, const Tensors& x) {
    const auto [y, state] = call(lstm, x[0], std::make_tuple(x[1], x[1].cos()));
    return y.square().sum() + std::get<0>(state).sum() * std::get<1>(state).exp().sum();
  });
}

TEST_P(RecomputedIn, DropoutDrawsTheSameAndLeavesTheGeneratorWhereItWas) {
  torch::manual_seed(1);
  const auto net = [](const at::Tensor& h) { return torch::dropout(h.sin(), 0.5, true); };
  same_passes({torch::randn({40}, options())}, {}, [&](const auto& call, const Tensors& x) {
    const at::Tensor y = call(net, call(net, x[0]));
    return y * torch::rand({40}, options());
  });
  at::Tensor x = torch::ones({4}, options()).requires_grad_();
  const at::Tensor y = recomputed(net, x);
  const at::Tensor next = torch::rand({3});  // drawn by others between the passes
  torch::manual_seed(7);
  const at::Tensor expected = torch::rand({3});
  torch::manual_seed(7);
  y.sum().backward();
  EXPECT_TRUE(torch::rand({3}).equal(expected)) << next;
}

TEST_P(RecomputedIn, NestedCalls) {
  torch::manual_seed(1);
  torch::nn::Linear a = of_dtype(torch::nn::Linear(6, 6), GetParam());
  torch::nn::Linear b = of_dtype(torch::nn::Linear(6, 6), GetParam());
  same_passes({torch::randn({5, 6}, options())}, {a->weight, b->weight, a->bias}, [&](const auto& call, const Tensors& x) {
    return call(
        [&](const at::Tensor& h) {
          const at::Tensor middle = call([&](const at::Tensor& g) { return torch::dropout(a(g).tanh(), 0.3, true); }, h);
          return call([&](const at::Tensor& g) { return call([&](const at::Tensor& f) { return b(f).sigmoid(); }, g) * g; }, middle);
        },
        x[0]);
  });
}

TEST_P(RecomputedIn, SeveralOutputsOfWhichSomeNeedNoGradient) {
  torch::manual_seed(1);
  const at::Tensor constant = torch::randn({6}, options());
  same_passes({torch::randn({6}, options()), torch::randn({6}, options())}, {}, [&](const auto& call, const Tensors& x) {
    const auto many = [&](const at::Tensor& a, const at::Tensor& b, const at::Tensor& nothing, double factor) {
      EXPECT_FALSE(nothing.defined());
      const auto [sorted, places] = (a * b * factor).sort();
      return std::make_tuple(sorted, places, constant.cos(), at::Tensor(), Tensors{a.sin(), a.detach().exp()}, std::make_pair(b.cos(), 3),
                             std::optional<at::Tensor>());
    };
    const auto [sorted, places, cosine, undefined, pair, with_number, none] = call(many, x[0], x[1], at::Tensor(), 2.5);
    EXPECT_EQ(places.scalar_type(), at::kLong);
    EXPECT_FALSE(places.requires_grad() || cosine.requires_grad() || undefined.defined() || pair[1].requires_grad() || none.has_value());
    EXPECT_TRUE(pair[0].requires_grad() && with_number.first.requires_grad());
    EXPECT_EQ(with_number.second, 3);
    return sorted * cosine + pair[0] * pair[1];  // nothing comes back to with_number
  });
}

TEST_P(RecomputedIn, IntegerAndConstantInputs) {
  torch::manual_seed(1);
  torch::nn::Embedding table = of_dtype(torch::nn::Embedding(9, 4), GetParam());
  const at::Tensor places = torch::tensor({1, 8, 1, 0});
  const at::Tensor mask = torch::rand({4, 4}, options());
  same_passes({}, table->parameters(), [&](const auto& call, const Tensors&) {
    return call([&](const at::Tensor& i, const at::Tensor& m) { return table(i).exp() * m; }, places, mask);
  });
}

TEST_P(RecomputedIn, FrozenParametersStayWithoutGradient) {
  torch::manual_seed(1);
  torch::nn::Linear frozen = of_dtype(torch::nn::Linear(6, 6), GetParam());
  torch::nn::Linear trained = of_dtype(torch::nn::Linear(6, 6), GetParam());
  for (at::Tensor& each : frozen->parameters()) each.set_requires_grad(false);
  const at::Tensor x = torch::randn({5, 6}, options());
  same_passes({}, trained->parameters(),
              [&](const auto& call, const Tensors&) { return call([&](const at::Tensor& h) { return trained(frozen(h).tanh()).tanh(); }, x); });
  EXPECT_FALSE(frozen->weight.grad().defined());
  const at::Tensor y = recomputed([&](const at::Tensor& h) { return frozen(h); }, x);
  EXPECT_FALSE(y.requires_grad());
}

// In one segment the sums are made in the same order. In two they are (a + b) + (c + d) instead of ((a + b) + c) + d: three roundings each, of
// partial sums of at most |a| + |b| + |c| + |d|, so that they differ by at most 6 epsilon times that.
TEST_P(RecomputedIn, SharedParameters) {
  torch::manual_seed(1);
  const at::Tensor weight = torch::randn({6, 6}, options()).requires_grad_();
  const auto twice = [&](const at::Tensor& h) { return (h.mm(weight).tanh().mm(weight)).sin(); };
  same_passes({torch::randn({5, 6}, options())}, {weight}, [&](const auto& call, const Tensors& x) { return call(twice, x[0]); });
  const at::Tensor x = torch::randn({5, 6}, options());
  const auto gradient = [&](const auto& call) { return torch::autograd::grad({call(twice, call(twice, x)).sum()}, {weight})[0]; };
  at::Tensor parts = torch::zeros_like(weight);
  {
    Tensors copies;
    for (int use = 0; use < 4; ++use) copies.push_back(weight.detach().clone().requires_grad_());
    const at::Tensor middle = x.mm(copies[0]).tanh().mm(copies[1]).sin();
    for (const at::Tensor& each : torch::autograd::grad({middle.mm(copies[2]).tanh().mm(copies[3]).sin().sum()}, copies)) parts += each.abs();
  }
  const double epsilon = GetParam() == at::kFloat ? 0x1p-24 : 0x1p-53;
  EXPECT_TRUE(((gradient(Plain()) - gradient(Recomputed())).abs() <= 6 * epsilon * parts).all().item<bool>());
}

// Among others a slice, whose node hides another one with edges of its own.
TEST_P(RecomputedIn, WorkInPlaceOnWhatTheFunctionMade) {
  torch::manual_seed(1);
  const at::Tensor scale = torch::randn({3}, options()).requires_grad_();
  const at::Tensor shift = torch::randn({2}, options()).requires_grad_();
  same_passes({torch::randn({4, 5}, options())}, {scale, shift}, [&](const auto& call, const Tensors& x) {
    return call(
        [&](const at::Tensor& h) {
          at::Tensor work = h.exp();
          work = work * 2;
          work.add_(h).mul_(3);
          work.narrow(1, 0, 3).mul_(scale);
          work.narrow(1, 3, 2).copy_(shift * work.narrow(1, 2, 1).clone());
          at::Tensor empty = torch::zeros({4, 5}, options());
          empty.select(0, 1).copy_(h.select(0, 2) * work.select(0, 0).clone());
          return work + empty;
        },
        x[0]);
  });
}

TEST_P(RecomputedIn, AFunctionThatReturnsItsInputOrAView) {
  torch::manual_seed(1);
  const at::Tensor weight = torch::randn({6}, options()).requires_grad_();
  same_passes({torch::randn({2, 3}, options())}, {weight}, [&](const auto& call, const Tensors& x) {
    const auto [same, view, again, leaf] = call([&](const at::Tensor& h) { return std::make_tuple(h, h.view({6}), h, weight); }, x[0]);
    return same.view({6}) * view.exp() + again.sum() * leaf;
  });
}

TEST_P(RecomputedIn, OutputsMayBeWorkedOnInPlace) {
  torch::manual_seed(1);
  same_passes({torch::randn({6}, options())}, {}, [&](const auto& call, const Tensors& x) {
    at::Tensor y = call([](const at::Tensor& h) { return h.sin() * 2; }, x[0]);
    y.mul_(3).add_(x[0]);
    y.narrow(0, 0, 2).zero_();
    return y;
  });
}

// The tensors are parts of one that needs a gradient, and have been changed through it: their nodes are made anew when they are next asked for.
TEST_P(RecomputedIn, ViewsOfWhatWasChangedInPlace) {
  torch::manual_seed(1);
  same_passes({torch::randn({6}, options())}, {}, [&](const auto& call, const Tensors& x) {
    at::Tensor base = x[0] * 2;
    const at::Tensor passed = base.narrow(0, 0, 3);
    const at::Tensor captured = base.narrow(0, 3, 3);
    base.mul_(x[0]);
    return call([captured](const at::Tensor& h) { return h.sin() * captured; }, passed) + captured.cos();
  });
}

TEST_P(RecomputedIn, CapturedTensorsWithAGraphOfTheirOwn) {
  torch::manual_seed(1);
  same_passes({torch::randn({6}, options())}, {}, [&](const auto& call, const Tensors& x) {
    const auto halves = x[0].exp().chunk(2);  // one node with two outputs
    return call([halves](const at::Tensor& h) { return h.sin() * halves[1].tanh() + halves[0] * halves[0]; }, x[0].narrow(0, 1, 3)) + halves[1];
  });
}

TEST_P(RecomputedIn, GradientsOfSomeThings) {
  torch::manual_seed(1);
  torch::nn::Linear layer = of_dtype(torch::nn::Linear(6, 6), GetParam());
  const at::Tensor x = torch::randn({5, 6}, options()).requires_grad_();
  const auto of = [&](const auto& call, const Tensors& what) {
    return torch::autograd::grad({call([&](const at::Tensor& h) { return layer(h).tanh(); }, x).square().sum()}, what);
  };
  for (const Tensors& what : {Tensors{x}, Tensors{layer->weight}, Tensors{layer->bias, x}}) {
    const Tensors expected = of(Plain(), what);
    const Tensors found = of(Recomputed(), what);
    for (size_t i = 0; i < what.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i]));
  }
  EXPECT_FALSE(x.grad().defined() || layer->weight.grad().defined());
}

TEST_P(RecomputedIn, SecondDerivatives) {
  torch::manual_seed(1);
  torch::nn::Linear layer = of_dtype(torch::nn::Linear(4, 4), GetParam());
  const at::Tensor before = torch::randn({3, 4}, options()).requires_grad_();
  const auto of = [&](const auto& call) {
    const at::Tensor x = before.sin();  // with a graph of its own
    const auto f = [&](const at::Tensor& h) { return layer(h).tanh().square().sum(); };
    const at::Tensor gradient = torch::autograd::grad({call(f, x)}, {x}, {}, true, true)[0];
    return torch::autograd::grad({gradient.square().sum() + x.sum()}, {before, layer->weight});
  };
  const Tensors expected = of(Plain());
  const Tensors found = of(Recomputed());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i]));
}

// A force: the derivative of an energy, trained itself.
TEST_P(RecomputedIn, AFunctionThatDifferentiates) {
  torch::manual_seed(1);
  torch::nn::Linear layer = of_dtype(torch::nn::Linear(4, 4), GetParam());
  same_passes({torch::randn({3, 4}, options())}, layer->parameters(), [&](const auto& call, const Tensors& x) {
    const auto force = [&](const at::Tensor& h) {
      const at::Tensor place = h.requires_grad() ? h : h.detach().requires_grad_();
      return torch::autograd::grad({layer(place).tanh().square().sum()}, {place}, {}, true, true)[0] + layer->bias;
    };
    return call(force, x[0] * 2) + call(force, x[0].detach());
  });
}

TEST(Recomputed, BackwardPassesMayFollowEachOtherIfTheGraphIsRetained) {
  int runs = 0;
  const at::Tensor x = torch::arange(3, at::kDouble).requires_grad_();
  const at::Tensor loss = recomputed(
                              [&](const at::Tensor& h) {
                                ++runs;
                                return h.square() * h;
                              },
                              x)
                              .sum();
  EXPECT_EQ(runs, 1);
  loss.backward({}, true);
  EXPECT_EQ(runs, 2);
  loss.backward();
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(x.grad().equal(6 * x.detach().square()));
  EXPECT_THROW(loss.backward(), std::exception);
  EXPECT_EQ(runs, 3);
}

TEST(Recomputed, AHookOfAParameterSeesTheSumOnce) {
  const at::Tensor weight = torch::ones({2}, at::kDouble).requires_grad_();
  int calls = 0;
  weight.register_hook([&](const at::Tensor& gradient) {
    ++calls;
    return gradient * 10;
  });
  const auto f = [&](const at::Tensor& h) { return h * weight * weight; };
  const at::Tensor x = torch::ones({2}, at::kDouble).requires_grad_();
  int of_input = 0;
  x.register_hook([&](const at::Tensor&) { ++of_input; });
  recomputed(f, recomputed(f, x)).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(of_input, 1);
  EXPECT_TRUE(weight.grad().equal(torch::full({2}, 40.0, at::kDouble)));
}

TEST(Recomputed, IsAPlainCallWithoutGradMode) {
  int runs = 0;
  at::Tensor x = torch::ones({2}).requires_grad_();
  const auto f = [&](const at::Tensor& h) {
    ++runs;
    return h.clone().mul_(2);
  };
  {
    const torch::NoGradGuard no_gradients;
    EXPECT_FALSE(recomputed(f, x).requires_grad());
  }
  {
    const c10::InferenceMode inference;
    EXPECT_TRUE(recomputed(f, torch::ones({2})).is_inference());
  }
  EXPECT_EQ(runs, 2);
}

// The buffers of a module that is the function or an input stay as the first run left them; the plain call's are the same.
TEST(Recomputed, RunningStatisticsOfModulesThatItKnowsAreUpdatedOnce) {
  const auto after_a_step = [](int way) {
    torch::manual_seed(1);
    torch::nn::BatchNorm1d norm(3);
    const at::Tensor x = torch::randn({8, 3}).requires_grad_();
    const auto forward = [](const at::Tensor& h, torch::nn::BatchNorm1d of) { return of(h); };
    at::Tensor y;
    if (way == 0) y = norm(x);
    if (way == 1) y = recomputed(norm, x);
    if (way == 2) y = recomputed(forward, x, norm);
    if (way == 3) y = recomputed([&](const at::Tensor& h, torch::nn::BatchNorm1dImpl& of) { return of.forward(h); }, x, std::ref(*norm));
    if (way == 4) y = recomputed([&](const at::Tensor& h) { return norm(h); }, x);
    (y * torch::arange(3)).square().sum().backward();
    return Tensors{y.detach(), x.grad(), norm->weight.grad(), norm->running_mean, norm->running_var, norm->num_batches_tracked};
  };
  const Tensors expected = after_a_step(0);
  for (const int way : {1, 2, 3, 4}) {
    const Tensors found = after_a_step(way);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].equal(expected[i]), way < 4 || i < 3) << "way " << way << ", tensor " << i;
  }
}

TEST(Recomputed, RunsInTheAutocastModesOfTheFirstTime) {
  const auto gradients = [](const auto& call, bool cache) {
    torch::manual_seed(1);
    torch::nn::Linear layer(8, 8);
    const at::Tensor x = torch::randn({4, 8}).requires_grad_();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(cache);
    at::autocast::increment_nesting();
    const auto f = [&](const at::Tensor& h) {
      EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
      EXPECT_EQ(at::autocast::is_autocast_cache_enabled(), cache);
      return layer(h);
    };
    const at::Tensor before = layer(x);  // the weight's cast is in the cache
    const at::Tensor y = call(f, call(f, before));
    at::autocast::decrement_nesting();
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_cache_enabled(true);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    y.to(at::kFloat).sum().backward();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    return Tensors{x.grad(), layer->weight.grad()};
  };
  for (const bool cache : {false, true}) {
    const Tensors expected = gradients(Plain(), false);  // with a cache it adds up in half precision
    const Tensors found = gradients(Recomputed(), cache);
    for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << "cache " << cache << ", tensor " << i;
  }
}

TEST(Recomputed, AnExceptionOfTheSecondRunPassesThroughAndLeavesNoTrace) {
  bool fails = false;
  const at::Tensor x = torch::ones({3}).requires_grad_();
  torch::nn::BatchNorm1d norm(1);
  const auto f = [&](const at::Tensor& h, const torch::nn::BatchNorm1d& of) {
    const at::Tensor y = torch::dropout(torch::nn::BatchNorm1d(of)(h.unsqueeze(1)), 0.5, true);
    if (fails) throw std::out_of_range("the second time");
    return y;
  };
  const at::Tensor y = recomputed(f, x, norm);
  const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
  const at::Tensor mean = norm->running_mean.clone();
  fails = true;
  EXPECT_THROW(y.sum().backward(), std::out_of_range);
  EXPECT_TRUE(at::globalContext().defaultGenerator(at::kCPU).get_state().equal(state));
  EXPECT_TRUE(norm->running_mean.equal(mean));
  EXPECT_TRUE(at::GradMode::is_enabled());
  EXPECT_FALSE(x.grad().defined());
  fails = false;
  y.sum().backward();  // nothing was freed
  EXPECT_TRUE(x.grad().defined());
}

void expect_part(const std::string& message, const std::string& part) { EXPECT_NE(message.find(part), std::string::npos) << message; }

TEST(Recomputed, RefusesInputsThatChange) {
  const at::Tensor leaf = torch::ones({3}).requires_grad_();
  const at::Tensor x = leaf * 1;
  const at::Tensor constant = torch::ones({3});
  expect_part(message_of<tw::ContractError>([&] { recomputed([](const at::Tensor&, at::Tensor h) { return h.mul_(2); }, constant, x); }),
              "tensor 1 of its inputs in place");
  const at::Tensor z = leaf * 1;
  at::Tensor y = recomputed([](const at::Tensor& c, const at::Tensor& h) { return (h * c).sin(); }, constant, z);
  z.mul_(2);
  expect_part(message_of<tw::ContractError>([&] { y.sum().backward(); }), "tensor 1 of the inputs");
  y = recomputed([](const std::vector<at::Tensor>& of) { return (of[1] * of[0]).sin(); }, Tensors{constant, leaf});
  constant.add_(1);
  expect_part(message_of<tw::ContractError>([&] { y.sum().backward(); }), "tensor 0 of the inputs");
  y = recomputed([&](const at::Tensor& h) { return h * leaf; }, constant);
  {
    const torch::NoGradGuard no_gradients;
    leaf.add_(1);
  }
  expect_part(message_of<tw::ContractError>([&] { y.sum().backward(); }), "a parameter");
}

TEST(Recomputed, RefusesASecondRunThatDiffers) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  const at::Tensor w = torch::ones({3}).requires_grad_();
  const auto message = [&](auto first, auto second) {
    bool again = false;
    const auto y = recomputed(
        [&](const at::Tensor& h) {
          const Tensors outputs = again ? second(h) : first(h);
          again = true;
          return outputs;
        },
        x);
    return message_of<tw::ContractError>([&] { y[0].sum().backward(); });
  };
  const auto plain = [](const at::Tensor& h) { return Tensors{h.sin()}; };
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin(), h}; }), "has 2 outputs, the first had 1");
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin().narrow(0, 0, 2)}; }), "[2]");
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin().to(at::kDouble)}; }), "float64");
  expect_part(message(plain, [](const at::Tensor& h) { return Tensors{h.sin().detach()}; }), "in need of a gradient");
  expect_part(message(plain, [](const at::Tensor&) { return Tensors{at::Tensor()}; }), "undefined");
  expect_part(message(plain, [&](const at::Tensor& h) { return Tensors{h * w}; }), "has 1 leaves of its own, and not 0");
  expect_part(message([&](const at::Tensor& h) { return Tensors{h * w}; }, plain), "does not depend on all");
  EXPECT_EQ(message(plain, plain), "nothing thrown");
}

TEST(Recomputed, FunctionsThatCannotBeCopiedAreWelcome) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  recomputed([factor = std::make_unique<double>(3)](const at::Tensor& h) { return h * *factor; }, x).sum().backward();
  EXPECT_TRUE(x.grad().equal(torch::full({3}, 3.0)));
}

TEST(Recomputed, WhatTheFunctionHoldsIsFreedByTheBackwardPassOrWithTheGraph) {
  const at::Tensor x = torch::ones({3}).requires_grad_();
  const auto alive = std::make_shared<int>(0);
  const at::Tensor y = recomputed([alive](const at::Tensor& h) { return h.sin(); }, x).sum();
  EXPECT_EQ(alive.use_count(), 2);
  y.backward();
  EXPECT_EQ(alive.use_count(), 1);
  recomputed([alive](const at::Tensor& h) { return h.sin(); }, x);
  EXPECT_EQ(alive.use_count(), 1);
}

// No recursion as deep as the graph.
TEST(Recomputed, AGraphOfManySegmentsIsFreedAndPassed) {
  const at::Tensor x = torch::ones({1}).requires_grad_();
  for (const bool passes : {false, true}) {
    at::Tensor y = x;
    for (int i = 0; i < 20000; ++i) y = recomputed([](const at::Tensor& h) { return h + 1; }, y);
    if (passes) y.backward();
  }
  EXPECT_EQ(x.grad().item<float>(), 1);
}

// Then a thread of the engine's goes on.
TEST(Recomputed, NestedDeeperThanTheEngineNestsOnOneThread) {
  std::set<std::thread::id> threads;
  std::function<at::Tensor(const at::Tensor&, int)> deep = [&](const at::Tensor& h, int depth) {
    threads.insert(std::this_thread::get_id());
    EXPECT_TRUE(at::GradMode::is_enabled() && at::autocast::is_autocast_enabled(at::kCPU));
    return depth == 0 ? torch::dropout(h.exp(), 0.5, true) : recomputed(deep, h * 1, depth - 1);
  };
  const auto gradient = [&](int depth) {
    torch::manual_seed(1);
    const at::Tensor x = torch::ones({16}, at::kDouble).requires_grad_();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = deep(x, depth).sum();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    y.backward();
    return x.grad();
  };
  const at::Tensor expected = gradient(0);
  EXPECT_EQ(threads.size(), 1);
  EXPECT_TRUE(gradient(70).equal(expected));
  EXPECT_GT(threads.size(), 1);
}

}  // namespace recomputed_test
