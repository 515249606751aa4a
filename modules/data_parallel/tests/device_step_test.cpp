// SPDX-License-Identifier: Apache-2.0
// What a training step on a device waits for, and DataParallel's errors about tensors on several devices. (equivalence_test compares numbers.)
#include "message_of.hpp"
#include "mpi_test.hpp"
#include "training.hpp"

#include <torch/torch.h>

#include <tw/data_parallel.hpp>

namespace device_step_test {

using tw::Reduction;
using tw::testing::device;
using tw::testing::expect_error;
using tw::testing::expect_host_waits;
using tw::testing::world;

torch::nn::Sequential make_net() {
  torch::manual_seed(7);
  torch::nn::Sequential net(torch::nn::Linear(8, 16), torch::nn::Tanh(), torch::nn::Linear(16, 1));
  tw::testing::place_module(net);
  return net;
}

TEST(DeviceStep, TheHostDoesNotWait) {
  for (const bool overlap : {false, true}) {
    auto net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    tw::DataParallel parallel(world(), *net,
                              {.reduction = Reduction::mean, .buckets = {.first_bucket_bytes = 64, .bucket_bytes = 256}, .overlap = overlap});
    const at::Tensor x = torch::ones({4, 8}).to(device());
    const auto step = [&] {
      sgd.zero_grad();
      net->forward(x).sum().backward();
      sgd.step();
    };
    step();
    expect_host_waits(0, [&] {
      for (int i = 0; i < 3; ++i) step();
    });
  }
}

tw::DataParallelOptions small_buckets() { return {.reduction = Reduction::mean, .buckets = {.first_bucket_bytes = 64, .bucket_bytes = 256}}; }

// The host must know whether gradients are finite, and their norm.
TEST(DeviceStep, TheHostWaitsOnceForWhatItHasToKnow) {
  for (const bool release : {false, true}) {
    for (const bool check : {false, true}) {
      for (const double max_norm : {0.0, 1e-3}) {
        auto net = make_net();
        torch::optim::SGD sgd(net->parameters(), 0.1);
        tw::DataParallelOptions options = small_buckets();
        options.check_finite = check;
        options.sharding = tw::Sharding::slices;
        options.release = release;
        tw::DataParallel parallel(world(), *net, options);
        tw::ShardedOptimizer sharded(parallel.reducer(), parallel.parameters(), tw::optimizer_like(sgd, parallel.parameters()),
                                     {.max_gradient_norm = max_norm});
        const at::Tensor x = torch::ones({4, 8}).to(device());
        const auto step = [&] {
          net->forward(x).sum().backward();
          sharded.step();
        };
        step();
        SCOPED_TRACE(tw::concat("checked ", check, ", norm ", max_norm, ", release ", release));
        expect_host_waits((check ? 1 : 0) + (max_norm > 0 ? 1 : 0), step);
      }
    }
  }
}

TEST(DeviceStep, CompressionDoesNotWait) {
  for (const auto& compressor : {tw::half_compression(tw::HalfPrecision::bfloat16), tw::top_k_compression(), tw::power_sgd_compression()}) {
    auto net = make_net();
    tw::DataParallelOptions options = small_buckets();
    options.compressor = compressor;
    const tw::DataParallel parallel(world(), *net, options);
    const at::Tensor x = torch::ones({4, 8}).to(device());
    net->forward(x).sum().backward();
    SCOPED_TRACE(compressor->describe());
    expect_host_waits(0, [&] { net->forward(x).sum().backward(); });
  }
}

// The host has finished the pass long before the device begins to compute it.
TEST(DeviceStep, GradientsOfNumbersThatAreStillOnTheirWay) {
  const at::Tensor w = torch::zeros({3}).to(device()).set_requires_grad(true);
  tw::DataParallel parallel(world(), {{"w", w}}, {.reduction = Reduction::sum});
  for (int step = 1; step <= 3; ++step) {
    const at::Tensor x = torch::zeros({3}).to(device());
    x.copy_(torch::full({3}, double(step) * (int{world().rank()} + 1)).pin_memory(), /*non_blocking=*/true);
    w.mutable_grad() = at::Tensor();
    (w * x).sum().backward();
    EXPECT_TRUE(w.grad().cpu().eq(step * world().size() * (world().size() + 1) / 2).all().item<bool>()) << w.grad().cpu();
  }
}

TEST(DeviceStep, NamesTheParameterThatLiesElsewhere) {
  const at::Tensor here = torch::zeros({3}).set_requires_grad(true);
  const at::Tensor there = torch::zeros({3}).to(device()).set_requires_grad(true);
  const std::string device_of_rank_0 = c10::Device(device().type(), 0).str();  // reported by rank 0
  expect_error([&] { tw::DataParallel(world(), {{"a", there}, {"b", here}}, {.reduction = Reduction::mean}); },
               "the parameters of DataParallel must be on one device: a is on " + device_of_rank_0 + ", b on cpu");
}

TEST(DeviceStep, RefusesWhatIsNotThereYet) {
  const at::Tensor w = torch::zeros({3}).to(device()).set_requires_grad(true);
  expect_error([&] { tw::DataParallel(world(), {{"w", w}}, {.reduction = Reduction::mean, .sparse = {"w"}}); }, "cannot be sparse yet: w");
  const auto one_copy = [&] { tw::FullySharded(world(), {{"w", w}}, {.reduction = Reduction::mean, .one_copy_per_node = true}); };
  expect_error(one_copy, "one_copy_per_node needs parameters on the CPU, got w on " + device().str());
}

TEST(DeviceStep, RefusesToShardWhereTheGradientsAreNot) {
  const std::vector<tw::NamedTensor> parameters{{"w", torch::zeros({3}).to(device())}};
  tw::Reducer reducer(world(), tw::specs_of(parameters), {.reduction = Reduction::mean, .sharding = tw::Sharding::slices});
  const torch::optim::SGD sgd({parameters[0].tensor}, 0.1);
  expect_error([&] { tw::ShardedOptimizer(reducer, parameters, tw::optimizer_like(sgd, parameters)); },
               tw::concat("parameter 'w' lies on ", device().str(), ", but its gradient is reduced on cpu"));
}

TEST(DeviceStep, SaysWhichBucketsMemoryIsNotThere) {
  if (tw::testing::on_a_real_device()) GTEST_SKIP() << "how much memory it has is not known";
  const std::string message = tw::testing::message_of([] {
    const std::vector<tw::TensorSpec> specs{{"small", {3}, at::kFloat}, {"large", {int64_t{800} << 20}, at::kFloat}};
    const tw::Reducer reducer(world(), specs, {.reduction = Reduction::mean, .device = device()});
  });
  EXPECT_NE(message.find(tw::concat(" of gradients takes 3355443200 bytes on ", device().str(), "; with Sharding::slices")), std::string::npos)
      << message;
}

}  // namespace device_step_test
