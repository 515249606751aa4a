// SPDX-License-Identifier: Apache-2.0
// The simulated accelerator runs the CPU's own operators, so results are compared for equality. A missing wait gives a different result every time.
#include "accelerator.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace accelerator_test {

namespace accelerator = tw::testing::accelerator;

[[maybe_unused]] const bool installed = (accelerator::install(2), true);

at::Tensor on_device(const at::Tensor& tensor, int index = 0) { return tensor.to(accelerator::device(index)); }

c10::Stream current_stream() { return c10::impl::VirtualGuardImpl(accelerator::device().type()).getStream(accelerator::device()); }
c10::Stream side_stream() { return c10::impl::VirtualGuardImpl(accelerator::device().type()).getStreamFromGlobalPool(accelerator::device(), false); }

at::Tensor pinned(at::IntArrayRef sizes, double value) { return torch::full(sizes, value).pin_memory(); }

// Fills `tensor` asynchronously.
void fill_late(const at::Tensor& tensor, double value) { tensor.copy_(pinned(tensor.sizes(), value), /*non_blocking=*/true); }

class Net : public torch::nn::Module {
 public:
  Net() {
    body_->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    body_->push_back(torch::nn::BatchNorm2d(4));
    body_->push_back(torch::nn::ReLU());
    body_->push_back(torch::nn::MaxPool2d(2));
    body_->push_back(torch::nn::Flatten());
    body_->push_back(torch::nn::Linear(4 * 4 * 4, 16));
    body_->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
    body_->push_back(torch::nn::GELU());
    body_->push_back(torch::nn::Linear(16, 10));
    register_module("body", body_);
  }
  at::Tensor forward(const at::Tensor& x) { return torch::log_softmax(body_->forward(x), 1); }

 private:
  torch::nn::Sequential body_;
};

TEST(Accelerator, TrainsAsTheCpuDoes) {
  const auto train = [](c10::Device device) {
    torch::manual_seed(3);
    const auto net = std::make_shared<Net>();
    net->to(torch::kDouble);
    const at::Tensor images = torch::randn({6, 1, 8, 8}, torch::kDouble);
    const at::Tensor labels = torch::arange(6);
    for (const at::Tensor& parameter : net->parameters()) accelerator::move(parameter, device);
    for (const at::Tensor& buffer : net->buffers()) accelerator::move(buffer, device);
    torch::optim::Adam adam(net->parameters(), 1e-2);
    std::vector<double> losses;
    for (int step = 0; step < 4; ++step) {
      adam.zero_grad();
      const at::Tensor loss = torch::nll_loss(net->forward(images.to(device)), labels.to(device));
      loss.backward();
      adam.step();
      losses.push_back(loss.item<double>());
    }
    return losses;
  };
  // Layers consist of different operators there, which round differently: four steps of some hundred operations each, in units of 2^-53.
  const std::vector<double> expected = train(torch::kCPU);
  const std::vector<double> got = train(accelerator::device(1));
  for (size_t step = 0; step < expected.size(); ++step) EXPECT_NEAR(got[step], expected[step], 1e-12) << step;
}

TEST(Accelerator, RecurrentLayersTrainAsTheCpus) {
  const auto gradients = [](const auto& make, c10::Device device) {
    torch::manual_seed(5);
    auto net = make();
    net->to(torch::kDouble);
    const at::Tensor x = torch::randn({5, 3, 4}, torch::kDouble);
    for (const at::Tensor& parameter : net->parameters()) accelerator::move(parameter, device);
    std::get<0>(net->forward(x.to(device))).square().sum().backward();
    std::vector<at::Tensor> found;
    for (const at::Tensor& parameter : net->parameters()) found.push_back(parameter.grad().cpu());
    return found;
  };
  const auto expect_same = [&](const auto& make) {
    const auto expected = gradients(make, torch::kCPU);
    const auto found = gradients(make, accelerator::device(1));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].allclose(expected[i], 1e-12, 1e-13)) << i;
  };
  for (const bool bias : {false, true}) {
    expect_same([&] { return torch::nn::LSTM(torch::nn::LSTMOptions(4, 3).num_layers(2).bidirectional(true).bias(bias)); });
    expect_same([&] { return torch::nn::GRU(torch::nn::GRUOptions(4, 3).num_layers(2).bias(bias)); });
  }
}

TEST(Accelerator, OperatorsEqualTheCpus) {
  const at::Tensor x = torch::randn({5, 7}, torch::kDouble);
  const at::Tensor y = torch::randn({7, 5}, torch::kDouble);
  const auto expect_same = [&](const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& f) {
    const at::Tensor expected = f(x.clone(), y.clone());
    const at::Tensor got = f(on_device(x), on_device(y));
    EXPECT_EQ(got.device(), accelerator::device());
    EXPECT_TRUE(got.cpu().equal(expected)) << got.cpu() << expected;
  };
  expect_same([](const auto& a, const auto& b) { return a.matmul(b); });
  expect_same([](const auto& a, const auto& b) { return a.t().add(b, 2).sum(0, true).div_(3); });
  expect_same(
      [](const auto& a, const auto& b) { return torch::cat({a, b.t()}, 0).index_select(0, torch::arange(3, a.options().dtype(torch::kLong))); });
  expect_same([](const auto& a, const auto&) { return std::get<0>(a.narrow(1, 2, 4).max(1)); });
  expect_same([](const auto& a, const auto&) { return a.masked_select(a.gt(0)); });
  expect_same([](const auto& a, const auto&) { return a.abs(); });
  expect_same([](const auto& a, const auto&) { return a.slice(0, 1, 5, 2).copy_(a.slice(0, 0, 4, 2)).reshape({-1}); });
  expect_same([](const auto& a, const auto& b) {
    at::Tensor out = torch::empty({0}, a.options());
    return at::add_out(out, a, b.t());
  });
  expect_same([](const auto& a, const auto&) { return a.unfold(1, 3, 2).to(torch::kFloat).contiguous(); });
}

TEST(Accelerator, WritesResultsIntoViews) {
  torch::manual_seed(2);
  const at::Tensor a = torch::randn({20, 12}, torch::kDouble);
  const at::Tensor start = torch::randn({64}, torch::kDouble);
  const auto iterate = [](const at::Tensor& matrix, const at::Tensor& memory) {
    const at::Tensor p = memory.narrow(0, 0, 20).view({20, 1});
    const at::Tensor q = memory.narrow(0, 20, 12).view({12, 1});
    at::Tensor out = p;
    at::matmul_out(out, matrix, q);
    p.copy_(std::get<0>(at::linalg_qr(p)));
    out = q;
    at::matmul_out(out, matrix.t(), p);
    const at::Tensor approximation = torch::zeros_like(matrix);
    out = approximation;
    at::matmul_out(out, p, q.t());
    return approximation;
  };
  EXPECT_TRUE(iterate(on_device(a), on_device(start)).cpu().equal(iterate(a, start.clone())));
}

TEST(Accelerator, WhoDoesNotWaitReadsWhatWasThereBefore) {
  const at::Tensor x = on_device(torch::full({3}, 1.0));
  const at::Tensor host = pinned({3}, -1);
  host.copy_(x, /*non_blocking=*/true);
  c10::Event there(accelerator::device().type());
  there.record(current_stream());
  EXPECT_TRUE(host.eq(-1).all().item<bool>());
  EXPECT_FALSE(there.query()) << "asked for the first time";
  EXPECT_TRUE(there.query());
  EXPECT_TRUE(host.eq(1).all().item<bool>());
}

TEST(Accelerator, StreamsDoNotWaitForEachOtherByThemselves) {
  for (const bool waits : {false, true}) {
    const at::Tensor x = on_device(torch::full({3}, 1.0));
    fill_late(x, 2);
    const c10::Stream side = side_stream();
    if (waits) {
      c10::Event filled(accelerator::device().type());
      filled.record(current_stream());
      filled.block(side);
    }
    at::Tensor twice;
    {
      const c10::StreamGuard in(side);
      twice = x.mul(2).cpu();  // the host waits only for this stream
    }
    EXPECT_EQ(twice[0].item<double>(), waits ? 4 : 2);
  }
}

TEST(Accelerator, ComputesLateToo) {
  const at::Tensor x = on_device(torch::full({3}, 1.0));
  const at::Tensor host = pinned({3}, -1);
  x.add_(1).copy_(x.mul(3));
  const c10::StreamGuard in(side_stream());
  host.copy_(x, /*non_blocking=*/true);
  in.current_stream().synchronize();
  EXPECT_EQ(host[0].item<double>(), 1) << "the other stream has not computed yet";
}

TEST(Accelerator, MemoryThatIsFreedTooEarlyHoldsNoNumbers) {
  for (const bool recorded : {false, true}) {
    at::Tensor x = on_device(torch::full({3}, 1.0));
    c10::Event filled(accelerator::device().type());
    filled.record(current_stream());
    const at::Tensor host = pinned({3}, -1);
    const c10::Stream side = side_stream();
    filled.block(side);
    {
      const c10::StreamGuard in(side);
      host.copy_(x, /*non_blocking=*/true);
    }
    if (recorded) x.record_stream(side);
    x.reset();
    current_stream().synchronize();
    side.synchronize();
    EXPECT_EQ(host.isnan().all().item<bool>(), !recorded);
  }
}

TEST(AcceleratorDeathTest, TheHostCannotReadItsMemory) {
  const at::Tensor x = on_device(torch::ones({3}));
  EXPECT_DEATH(std::printf("%f", static_cast<double>(*x.const_data_ptr<float>())), "");  // by a signal, or by a handler that catches it
}

TEST(Accelerator, CountsWaitsOfTheHost) {
  const at::Tensor x = on_device(torch::ones({3}));
  const at::Tensor host = pinned({3}, 0);
  const auto waits_of = [](const auto& f) {
    const int64_t before = accelerator::host_waits();
    f();
    return accelerator::host_waits() - before;
  };
  EXPECT_EQ(waits_of([&] { x.add_(1).matmul(x).relu_(); }), 0);
  EXPECT_EQ(waits_of([&] { host.copy_(x, true); }), 0);
  EXPECT_EQ(waits_of([&] { x.copy_(host, true); }), 0);
  EXPECT_EQ(waits_of([&] { (void)x[0].item(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)x.cpu(); }), 1);
  EXPECT_EQ(waits_of([&] { (void)x.nonzero(); }), 1);
  EXPECT_EQ(waits_of([&] { current_stream().synchronize(); }), 1);
}

TEST(Accelerator, CopiesBetweenDevices) {
  const at::Tensor x = on_device(torch::arange(4.0), 0);
  fill_late(x, 7);
  const at::Tensor y = x.to(accelerator::device(1));
  EXPECT_EQ(y.device(), accelerator::device(1));
  EXPECT_TRUE(y.cpu().eq(7).all().item<bool>());
  EXPECT_THROW(x.to(accelerator::device(2)), c10::Error);
}

}  // namespace accelerator_test
