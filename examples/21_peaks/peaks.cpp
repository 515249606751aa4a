// SPDX-License-Identifier: Apache-2.0
// Layers in parallel: a network with 64 residual layers classifies points of the plane into five levels of a landscape. The training loop is that of
// one process. Each rank has a part of the layers, and an optimizer for them.
//
// Build:   cmake --build build/release --target 21_peaks
// Run:     mpirun -n 2 build/release/bin/21_peaks
// Expect:  95 % of the test points right, then residuals and speed-up
#include <torch/torch.h>

#include <iostream>
#include <tw/base/random.hpp>
#include <tw/data/peaks.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/mpi.hpp>

namespace {

constexpr int64_t width = 8;

struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

}  // namespace

int main(int argc, char** argv) {
  using namespace tw::layer_parallel;
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const tw::TensorDataset train = tw::make_peaks(4000, 1);
  const tw::TensorDataset test = tw::make_peaks(1000, 2);

  const auto opening = [] { return torch::nn::Linear(2, width); };
  const auto residual = [] { return Residual(); };
  const auto closing = [] { return torch::nn::Linear(width, 5); };
  LayerParallel net(comm, {block(opening, 1), block(residual, 64), block(closing, 1)},
                    {.final_time = 5, .levels = 2, .coarsening = 8, .forward = {.iterations = 2}, .backward = {.iterations = 1}});
  torch::optim::Adam adam(net.parameters(), 1e-2);

  constexpr int epochs = 60;
  constexpr size_t batch = 100;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = tw::random_permutation(train.size(), 3, static_cast<uint64_t>(epoch));
    static_cast<torch::optim::AdamOptions&>(adam.param_groups()[0].options()).lr(1e-2 * (1 - static_cast<double>(epoch) / epochs));
    for (size_t begin = 0; begin < order.size(); begin += batch) {
      const tw::Batch samples = train.batch({order.data() + begin, batch});
      adam.zero_grad();
      torch::cross_entropy_loss(net.forward(samples.inputs), samples.targets).backward();
      adam.step();
    }
  }
  const NetworkReport report = net.report();
  const torch::NoGradGuard no_gradients;
  const auto right = net.forward(test.inputs()).argmax(1).eq(test.targets()).sum().item<int64_t>();
  if (comm.rank() == 0) std::cout << 0.1 * static_cast<double>(right) << " % of the test points right\n" << report;
}
