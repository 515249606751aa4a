// SPDX-License-Identifier: Apache-2.0
// Splines in depth: the weights of 64 residual layers are points on a curve with 16 control points. The network learns about as well as one with 64
// independent layers.
//
// Build:   cmake --build build/release --target 27_splinet
// Run:     mpirun -n 2 build/release/bin/27_splinet [seed = 1] [epochs = 30]
// Expect:  a quarter of the layers' parameters, and about the same loss
#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <tw/base/random.hpp>
#include <tw/data/peaks.hpp>
#include <tw/layer_training/splinet.hpp>
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

std::shared_ptr<LayerParallel> network(const tw::Communicator& comm, uint64_t seed) {
  const std::vector<Block> blocks{block([] { return torch::nn::Linear(2, width); }, 1), block([] { return Residual(); }, 64),
                                  block([] { return torch::nn::Linear(width, 5); }, 1)};
  return std::make_shared<LayerParallel>(comm, blocks, LayerParallelOptions{.final_time = 5, .coarsening = 8, .seed = seed});
}

/// Trains either network, because both are a TrainableModel. @return the loss of all samples
double train(tw::TrainableModel& model, const tw::TensorDataset& data, int epochs) {
  const tw::LossFunction loss = [](const at::Tensor& outputs, const at::Tensor& targets) { return torch::cross_entropy_loss(outputs, targets); };
  torch::optim::Adam adam(model.tensors().tensors(), 3e-2);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = tw::random_permutation(data.size(), 3, static_cast<uint64_t>(epoch));
    static_cast<torch::optim::AdamOptions&>(adam.param_groups()[0].options()).lr(3e-2 * (1 - static_cast<double>(epoch) / epochs));
    for (size_t begin = 0; begin < order.size(); begin += batch) {
      const tw::Batch samples = data.batch({order.data() + begin, batch});
      adam.zero_grad();
      model.pass({samples.inputs, samples.targets, loss});
      adam.step();
    }
  }
  const torch::NoGradGuard no_gradients;
  return loss(model.forward(data.inputs()), data.targets()).item<double>();
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const uint64_t seed = argc > 1 ? std::stoul(argv[1]) : 1;
  const int epochs = argc > 2 ? std::stoi(argv[2]) : 30;
  const tw::TensorDataset data = tw::make_peaks(4000, 1);
  constexpr int64_t layers = 64;
  constexpr int64_t of_a_layer = width * width + width;

  const double free_loss = train(*network(comm, seed), data, epochs);
  if (comm.rank() == 0) std::cout << "free layers: " << layers * of_a_layer << " parameters, loss " << free_loss << '\n';
  for (const int64_t control_points : {8, 16}) {
    SpliNet splines(network(comm, seed), {.control_points = control_points, .degree = 3});
    const double loss = train(splines, data, epochs);
    if (comm.rank() == 0) {
      std::cout << control_points << " control points: " << control_points * of_a_layer << " parameters, loss " << loss << std::endl;
    }
  }
}
