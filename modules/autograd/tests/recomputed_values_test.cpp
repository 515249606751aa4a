// SPDX-License-Identifier: Apache-2.0
// Recomputed functions of many kinds, compared with the plain call: outputs and gradients bitwise, unless noted.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <tw/autograd/recomputed.hpp>

#include "plain_call.hpp"

namespace recomputed_values_test {

using tw::recomputed;
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

// Gradients of the weights pass only through the outer graph: no input needs one.
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
  const at::Tensor next = torch::rand({3});  // drawn by other code between the passes
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
    return sorted * cosine + pair[0] * pair[1];  // no gradient reaches with_number
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

// In one segment the sums are made in the same order. In two they are (a + b) + (c + d) instead of ((a + b) + c) + d, with three roundings each of
// partial sums of at most |a| + |b| + |c| + |d|. So they differ by at most 6 epsilon times that.
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

// Includes a slice, whose node hides another one with different edges.
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

// The tensors are parts of one that needs a gradient, and were changed through it: their nodes are rebuilt at the next access.
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
    const at::Tensor x = before.sin();  // has a graph before the recomputed call
    const auto f = [&](const at::Tensor& h) { return layer(h).tanh().square().sum(); };
    const at::Tensor gradient = torch::autograd::grad({call(f, x)}, {x}, {}, true, true)[0];
    return torch::autograd::grad({gradient.square().sum() + x.sum()}, {before, layer->weight});
  };
  const Tensors expected = of(Plain());
  const Tensors found = of(Recomputed());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i]));
}

// A force: the derivative of an energy, which is trained itself.
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

}  // namespace recomputed_values_test
