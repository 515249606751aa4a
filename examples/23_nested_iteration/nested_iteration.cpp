// SPDX-License-Identifier: Apache-2.0
// Nested iteration: a network of 8 layers is trained, refined to 16, 32 and 64 layers, and trained again after each refinement. The larger networks
// start near a minimum, and most of the work happens where there are few layers. For comparison, a network of 64 layers is trained directly.
//
// Build:   cmake --build build/release --target 23_nested_iteration
// Run:     mpirun -n 2 build/release/bin/23_nested_iteration [seed = 1]
// Expect:  the loss of the direct run is reached in at most half of its work
#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <tw/base/random.hpp>
#include <tw/data/peaks.hpp>
#include <tw/layer_training/nested_iteration.hpp>
#include <tw/mpi.hpp>

namespace {

using namespace tw::layer_parallel;
using namespace tw::layer_training;
constexpr int64_t width = 8;
constexpr size_t batch = 100;

struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

/// A network and its optimizer.
struct Run {
  Run(const tw::Communicator& comm, int64_t layers, uint64_t seed)
      : net(comm,
            {block([] { return torch::nn::Linear(2, width); }, 1), block([] { return Residual(); }, layers),
             block([] { return torch::nn::Linear(width, 5); }, 1)},
            {.final_time = 5, .coarsening = 4, .seed = seed}),
        adam(net.parameters(), 1e-2) {}

  /// One epoch. @return its mean loss
  double train(const tw::TensorDataset& data, uint64_t epoch) {
    double sum = 0;
    const auto order = tw::random_permutation(data.size(), 3, epoch);
    for (size_t begin = 0; begin < order.size(); begin += batch) {
      const tw::Batch samples = data.batch({order.data() + begin, batch});
      adam.zero_grad();
      const torch::Tensor loss = torch::cross_entropy_loss(net.forward(samples.inputs), samples.targets);
      loss.backward();
      adam.step();
      sum += loss.item<double>();
    }
    return sum * batch / static_cast<double>(data.size());
  }

  LayerParallel net;
  torch::optim::Adam adam;
};

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const uint64_t seed = argc > 1 ? std::stoul(argv[1]) : 1;
  const tw::TensorDataset data = tw::make_peaks(4000, 1);
  constexpr int64_t layers = 64;
  constexpr uint64_t epochs = 20;

  Run direct(comm, layers, seed);
  double goal = 0;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) goal = direct.train(data, epoch);

  // Work in epochs of the largest network: an epoch of n layers counts n / 64.
  double work = 0;
  double loss = 0;
  uint64_t epoch = 0;
  auto nested = std::make_unique<Run>(comm, 8, seed);
  for (int64_t n = 8;; n *= 2) {
    // The same amount of work for each of the smaller networks.
    const int64_t most = n < layers ? 2 * layers / n : static_cast<int64_t>(epochs);
    for (int64_t i = 0; i < most && (i == 0 || loss > goal); ++i, work += static_cast<double>(n) / layers) loss = nested->train(data, epoch++);
    if (n == layers) break;
    auto finer = std::make_unique<Run>(comm, 2 * n, seed);
    refine(nested->net, nested->adam, finer->net, finer->adam);
    nested = std::move(finer);
  }
  if (comm.rank() == 0) {
    std::cout << "direct: loss " << goal << " after " << epochs << " epochs of work; nested: loss " << loss << " after " << work << std::endl;
  }
}
