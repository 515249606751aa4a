// SPDX-License-Identifier: Apache-2.0
// What passes hold at most, and what stays: bytes of tensors, as LibTorch's allocator tells them.
#include "dense.hpp"
#include "mpi_test.hpp"

#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/tensor/held_memory.hpp>

namespace tw::layer_parallel {
namespace memory_test {

using testing::world;

constexpr int64_t layers = 64;
constexpr int64_t width = 16;
constexpr int64_t batch = 256;
constexpr double state_bytes = sizeof(float) * width * batch;

struct Usage {
  double most;   // states
  double stays;  // while the loss lives
};

template <class Net>
std::vector<Usage> usage_of_passes(Net& net) {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({batch, width});
  std::vector<Usage> usage;
  for (int pass = 0; pass < 3; ++pass) {
    net.zero_grad();
    const HeldMemory held;
    torch::Tensor loss;
    {
      const torch::Tensor y = net.forward(x);
      loss = y.square().mean();
    }
    loss.backward();
    usage.push_back({static_cast<double>(held.most()) / state_bytes, static_cast<double>(held.now()) / state_bytes});
  }
  return usage;
}

std::vector<Usage> usage_in_parallel(Batching batching) {
  LayerParallel net(world(), {block([] { return Dense(width); }, layers, {.batching = batching})}, {.coarsening = 4});
  return usage_of_passes(net);
}

std::vector<Usage> usage_of_serial() {
  SerialNetwork net({block([] { return Dense(width); }, layers)}, {.coarsening = 4});
  return usage_of_passes(net);
}

// One process keeps two states a layer: what tanh gave, and the sum. So does a rank for its layers, while for each of the N / c C-points the
// adjoint's solver holds two on two levels, and two of what coarse steps are linearised at, or, in the last relaxation, where those are gone, a sweep
// four for each interval (2 + 6 / 4 a layer, and 1/4 for what is made on the way): at most 1.9 times as many, and some at the ends of a block.
TEST(Memory, PassesHoldAtMostWhatThePageSays) {
  const double ends = 9;
  const std::vector<Usage> serial = usage_of_serial();
  for (const Batching batching : {Batching::automatic, Batching::never}) {
    for (const auto& [most, stays] : usage_in_parallel(batching)) {
      EXPECT_LE(most, 1.9 * serial[0].most / world().size() + ends);
      if (world().size() > 1) {
        EXPECT_LT(most, serial[0].most);
      }
      EXPECT_LE(stays, serial[0].stays / world().size() + 0.01) << "the loss lives, and the pass is over";
    }
  }
}

}  // namespace memory_test
}  // namespace tw::layer_parallel
