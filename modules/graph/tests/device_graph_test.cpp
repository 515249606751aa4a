// SPDX-License-Identifier: Apache-2.0
// Graphs of modules on accelerators: independent of a particular device, with the CPU's random numbers, and without host waits.
#include "mpi_test.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/script.h>

#include <accelerator.hpp>
#include <tw/base/error.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/comm/objects.hpp>
#include <tw/graph/forward.hpp>
#include <tw/graph/torchscript.hpp>

#include "graph_of.hpp"

namespace tw::graph {
namespace device_graph_test {

namespace accelerator = tw::testing::accelerator;
using at::Tensor;
using testing::device;
using testing::place;
using testing::world;
using Function = std::function<Tensor(const Tensor&)>;

constexpr int64_t rows = 12;

Graph graph_of(const Function& function, const Tensor& x) {
  return captured(*torch::nn::Identity(), [&](const Tensors& in) { return Tensors{function(in[0])}; }, {x});
}
Tensor replay(const Graph& graph, const Tensor& x) {
  return interpreter_of(graph, *torch::nn::Identity()).run({x}, {.rows = x.size(0), .key = 7, .first = 3})[0];
}

/// The available devices: two simulated ones, or GPUs.
std::vector<c10::Device> all_devices() {
  std::vector<c10::Device> all;
  const c10::impl::VirtualGuardImpl guard(device().type());
  for (c10::DeviceIndex index = 0; index < std::min<c10::DeviceIndex>(guard.deviceCount(), 2); ++index) all.emplace_back(device().type(), index);
  return all;
}

/// Makes `device` the current one for its own lifetime.
class Current {
 public:
  explicit Current(c10::Device device) : guard_(device.type()), before_(guard_.exchangeDevice(device)) {}
  ~Current() { guard_.setDevice(before_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  c10::impl::VirtualGuardImpl guard_;
  c10::Device before_;
};

/// Names devices, and has constants: on the host, on a device, and created from numbers in the module.
Function with_constants() {
  const Tensor scale = torch::full({}, 1.5, torch::kDouble);
  const Tensor shift = place(torch::arange(6, torch::kDouble));
  return [=](const Tensor& x) {
    const Tensor powers = torch::tensor({1.0, 0.5, 0.25, 0.125, 2.0, 4.0}, x.options());
    const Tensor places = torch::arange(6, x.options()) + torch::zeros({x.size(0), 6}, x.device()).to(x.device(), torch::kDouble);
    return (x * scale + shift) * powers + places;
  };
}

TEST(DeviceGraph, IsTheSameOnAllDevices) {
  const Tensor x = place(torch::ones({rows, 6}, torch::kDouble));
  const Graph graph = graph_of(with_constants(), x.narrow(0, 0, 3));
  EXPECT_TRUE(all_agree(world(), graph.hash())) << to_text(graph);
}

/// The graph may have been captured by another rank.
TEST(DeviceGraph, RunsOnTheCurrentDevice) {
  const Function function = with_constants();
  const Tensor x = place(torch::linspace(-1, 1, rows * 6, torch::kDouble).view({rows, 6}));
  const Tensor expected = function(x).cpu();
  const Graph graph = graph_of(function, x.narrow(0, 0, 3));
  const std::string json = to_json(graph);
  for (const c10::Device other : all_devices()) {
    const Current current(other);
    for (const Graph& each : {graph, graph_from_json(json)}) {
      const Tensor found = replay(each, x.to(other));
      EXPECT_EQ(found.device(), other);
      EXPECT_TRUE(found.cpu().equal(expected));
    }
  }
}

TEST(DeviceGraph, IsOfOneDevice) {
  if (all_devices().size() == 1) GTEST_SKIP() << "there is one device";
  const c10::Device other(device().type(), static_cast<c10::DeviceIndex>(1 - device().index()));
  const auto expect_refused = [&](const Function& function) {
    try {
      (void)graph_of(function, place(torch::ones({3, 6})));
      ADD_FAILURE() << "nothing thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("it uses " + other.str() + ", but " + device().str()), std::string::npos) << error.what();
    }
  };
  expect_refused([&](const Tensor& x) { return x + torch::ones({6}, other).cpu().to(device()); });
  const Tensor there = torch::ones({6}, other);
  expect_refused([&](const Tensor& x) { return x + there.mul(2).cpu().to(x.device()); });
}

/// The numbers drawn for a row equal the CPU's, wherever rows lie.
TEST(DeviceGraph, DrawsTheNumbersOfTheCpu) {
  const std::vector<Function> functions{
      [](const Tensor& in) { return torch::dropout(in, 0.5, true); },
      [](const Tensor& in) { return torch::dropout(in.transpose(0, 1), 0.5, true).transpose(0, 1); },
      [](const Tensor& in) { return torch::feature_dropout(in, 0.5, true); },
      [](const Tensor& in) { return torch::rrelu(-in, 0.1, 0.9, true); },
      [](const Tensor& in) { return in + torch::rand_like(in); },
      [](const Tensor& in) { return in + torch::randn_like(in, in.options().dtype(torch::kFloat)); },
      [](const Tensor& in) { return in + torch::rand({in.size(0), 1, 6}, in.options()); },
      [](const Tensor& in) { return in + torch::randn({in.size(0), 4, 1}, in.options()); },
      [](const Tensor& in) { return in * torch::bernoulli(in - 1); },
      [](const Tensor& in) { return in * torch::bernoulli(in, 0.4); },
      [](const Tensor& in) { return in + torch::empty_like(in).uniform_(2, 3); },
      [](const Tensor& in) { return in + torch::empty_like(in).normal_(1, 2); },
      [](const Tensor& in) { return in + torch::empty_like(in).exponential_(2); },
      [](const Tensor& in) { return in * torch::zeros_like(in).bernoulli_(0.5); },
      [](const Tensor& in) { return torch::dropout(in.reshape({-1, 6}), 0.3, true).view({-1, 4, 6}); },
  };
  torch::manual_seed(2);
  const Tensor x = torch::rand({rows, 4, 6}, torch::kDouble) + 1;
  const Tensor there = x.to(device());
  for (size_t i = 0; i < functions.size(); ++i) {
    const Tensor expected = replay(graph_of(functions[i], x.narrow(0, 0, 3)), x);
    const Graph graph = graph_of(functions[i], there.narrow(0, 0, 3));
    const Tensor found = replay(graph, there);
    EXPECT_EQ(found.device(), device()) << i;
    EXPECT_TRUE(found.cpu().equal(expected)) << i << "\n" << to_text(graph);
  }
}

TEST(DeviceGraph, IsOfTorchScriptToo) {
  torch::manual_seed(4);
  torch::jit::Module script("script");
  script.register_parameter("weight", torch::randn({6, 6}, torch::dtype(torch::kDouble).requires_grad(true)), false);
  script.register_buffer("shift", torch::randn({6}, torch::kDouble));
  script.define("def forward(self, x):\n  return torch.tanh(torch.matmul(x, self.weight) + self.shift)[:, torch.tensor([2, 0, 1])] * 2\n");
  TorchScript module(script);
  testing::place_module(&module);
  const Tensor x = place(torch::randn({rows, 6}, torch::kDouble));
  const Graph graph = captured(module, forward_of(module), {x.narrow(0, 0, 3)});
  EXPECT_TRUE(interpreter_of(graph, module).run({x}, {.rows = rows})[0].equal(module.forward({x})[0]));
}

TEST(DeviceGraph, NobodyWaitsForAReplay) {
  torch::nn::Sequential net(torch::nn::Linear(6, 6), torch::nn::Dropout(0.5), torch::nn::BatchNorm1d(6));
  net->to(torch::kDouble);
  testing::place_module(net);
  const Function function = with_constants();
  const Forward forward = [&](const Tensors& in) { return Tensors{net->forward(function(in[0])) * torch::rand_like(in[0])}; };
  const Tensor x = place(torch::rand({rows, 6}, torch::kDouble));
  const Graph graph = captured(*net, forward, {x});
  const Interpreter interpreter = interpreter_of(graph, *net);
  const int64_t before = accelerator::host_waits();
  const Tensor sum = interpreter.run({x}, {.rows = rows, .key = 7})[0].sum();
  sum.backward();
  EXPECT_EQ(accelerator::host_waits(), before) << to_text(graph);
  EXPECT_TRUE(std::isfinite(sum.item<double>()));
}

}  // namespace device_graph_test
}  // namespace tw::graph
