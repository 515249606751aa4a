// SPDX-License-Identifier: Apache-2.0
// Peak and remaining memory of passes, in bytes of tensors reported by LibTorch's allocator.
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
  double most;   // peak, in states
  double stays;  // remaining while the loss lives, in states
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

// One process keeps two states a layer: the output of tanh, and the sum. A rank keeps the same for its layers. For each of the N / c C-points, the
// adjoint's solver holds two states on two levels, and two at which coarse steps are linearised. In the last relaxation these are freed, and a sweep
// holds four states for each interval (2 + 6 / 4 a layer, and 1/4 for temporaries). The sum is at most 1.9 times that of one process, plus some
// states at the ends of a block.
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
