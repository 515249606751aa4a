// SPDX-License-Identifier: Apache-2.0
// Layers in parallel on images: 64 residual convolutional layers on Fashion-MNIST, with two iterations forward and one backward. For comparison, the
// same network can also run serially.
//
// Build:   cmake --build build/release --target 22_resnet
// Run:     mpirun -n 2 build/release/bin/22_resnet [training images = 2560] [epochs = 1] [seed = 1] [parallel | serial]
// Expect:  the accuracy on the 10,000 test images; with all 60,000 training images about 85 % after an epoch
#include <torch/torch.h>

#include <iostream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tw/base/random.hpp>
#include <tw/data/image_dataset.hpp>
#include <tw/layer_parallel/layer_parallel.hpp>
#include <tw/mpi.hpp>

namespace {

constexpr int64_t channels = 8;

/// du/dt of a layer: [n, channels, 14, 14].
struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : convolution(register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::relu(convolution(u)); }
  torch::nn::Conv2d convolution;
};
TORCH_MODULE(Residual);

}  // namespace

int main(int argc, char** argv) {
  using namespace tw::layer_parallel;
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const int64_t images = argc > 1 ? std::stol(argv[1]) : 2560;
  const int64_t epochs = argc > 2 ? std::stol(argv[2]) : 1;
  const uint64_t seed = argc > 3 ? std::stoul(argv[3]) : 1;
  const bool serial = argc > 4 && std::string(argv[4]) == "serial";
  const tw::ImageDataset train = tw::load_mnist("/usr/share/datasets/fashion-mnist", tw::Split::train);
  if (images < 64 || images > train.size()) throw std::invalid_argument("training images: 64 to " + std::to_string(train.size()));
  const tw::ImageDataset test = tw::load_mnist("/usr/share/datasets/fashion-mnist", tw::Split::test);

  const auto opening = [] {
    return torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, channels, 3).stride(2).padding(1)), torch::nn::ReLU());
  };
  const auto residual = [] { return Residual(); };
  const auto closing = [] { return torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(channels * 14 * 14, 10)); };
  const CycleOptions f_relaxation{.relaxations = 0};
  LayerParallel net(comm, {block(opening, 1), block(residual, 64), block(closing, 1)},
                    {.final_time = 4,
                     .levels = serial ? 1 : 2,
                     .coarsening = 16,
                     .forward = {.iterations = 2, .cycle = f_relaxation},
                     .backward = {.iterations = 1, .cycle = f_relaxation},
                     .seed = seed});
  constexpr double learning_rate = 2e-3;
  torch::optim::Adam adam(net.parameters(), learning_rate);

  constexpr int64_t batch = 64;
  const int64_t steps = images / batch;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto order = tw::random_permutation(images, seed, static_cast<uint64_t>(epoch));
    for (int64_t step = 0; step < steps; ++step) {
      // Decays to zero, so that the comparison does not depend on the last few batches.
      const double left = 1 - static_cast<double>(epoch * steps + step) / static_cast<double>(epochs * steps);
      adam.param_groups()[0].options().set_lr(learning_rate * left);
      const tw::Batch samples = train.batch({order.data() + step * batch, static_cast<size_t>(batch)});
      adam.zero_grad();
      torch::cross_entropy_loss(net.forward(samples.inputs), samples.targets).backward();
      adam.step();
    }
  }
  const NetworkReport report = net.report();
  net.eval();
  const torch::NoGradGuard no_gradients;
  std::vector<int64_t> indices(200);
  int64_t right = 0;
  const int64_t tested = test.size();
  for (int64_t begin = 0; begin < tested; begin += static_cast<int64_t>(indices.size())) {
    std::iota(indices.begin(), indices.end(), begin);
    const tw::Batch samples = test.batch(indices);
    right += net.forward(samples.inputs).argmax(1).eq(samples.targets).sum().item<int64_t>();
  }
  if (comm.rank() == 0) std::cout << report << "accuracy " << static_cast<double>(right) / static_cast<double>(tested) << std::endl;
}
