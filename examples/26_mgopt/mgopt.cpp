// SPDX-License-Identifier: Apache-2.0
// MG/OPT: for each batch, a network of 16 layers finds most of the update for one of 64 layers. For comparison, plain gradient descent does the same
// amount of work, counted in passes of the network of 64 layers, with each of four learning rates.
//
// Build:   cmake --build build/release --target 26_mgopt
// Run:     mpirun -n 2 build/release/bin/26_mgopt [seed = 1] [budget = 400]
// Expect:  a lower loss than gradient descent reaches with any of its rates
#include <torch/torch.h>

#include <iostream>
#include <memory>
#include <tw/base/random.hpp>
#include <tw/data/peaks.hpp>
#include <tw/layer_training/mgopt.hpp>
#include <tw/mpi.hpp>
#include <utility>

namespace {

using namespace tw::layer_parallel;
using namespace tw::layer_training;
constexpr int64_t width = 8;
constexpr size_t batch = 1000;

struct ResidualImpl : torch::nn::Module {
  ResidualImpl() : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Residual);

std::shared_ptr<LayerParallel> network(const tw::Communicator& comm, int64_t layers, uint64_t seed) {
  const std::vector<Block> blocks{block([] { return torch::nn::Linear(2, width); }, 1), block([] { return Residual(); }, layers),
                                  block([] { return torch::nn::Linear(width, 5); }, 1)};
  return std::make_shared<LayerParallel>(comm, blocks, LayerParallelOptions{.final_time = 5, .coarsening = 4, .seed = seed});
}

const tw::LossFunction cross_entropy = [](const at::Tensor& outputs, const at::Tensor& targets) {
  return torch::cross_entropy_loss(outputs, targets);
};

/// Trains until `budget` is used up. @param step makes one step, and returns the loss before it and its work. @return the mean of these losses over
/// the last tenth of the work
template <class Step>
double train(const tw::TensorDataset& data, double budget, const Step& step) {
  double work = 0;
  double sum = 0;
  int count = 0;
  for (uint64_t epoch = 0; work < budget; ++epoch) {
    const auto order = tw::random_permutation(data.size(), 3, epoch);
    for (size_t begin = 0; begin < order.size() && work < budget; begin += batch) {
      const auto [loss, cost] = step(data.batch({order.data() + begin, batch}));
      work += cost;
      if (work <= 0.9 * budget) continue;
      sum += loss;
      ++count;
    }
  }
  return sum / count;
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const uint64_t seed = argc > 1 ? std::stoul(argv[1]) : 1;
  const double budget = argc > 2 ? std::stod(argv[2]) : 400;
  const tw::TensorDataset data = tw::make_peaks(4000, 1);

  const auto net = network(comm, 64, seed);
  MgOpt mgopt({net, network(comm, 16, seed)});
  int cancelled = 0;
  const double loss = train(data, budget, [&](const tw::Batch& samples) {
    const MgOptReport report = mgopt.step(samples.inputs, samples.targets, cross_entropy);
    cancelled += report.corrections[0].is_cancelled() ? 1 : 0;
    return std::pair(report.loss_before, report.work);
  });
  if (comm.rank() == 0) std::cout << "MG/OPT: loss " << loss << ", " << cancelled << " corrections cancelled" << std::endl;

  for (const double rate : {0.2, 0.4, 0.8, 1.6}) {
    const auto plain = network(comm, 64, seed);
    torch::optim::SGD sgd(plain->parameters(), rate);
    const double reached = train(data, budget, [&](const tw::Batch& samples) {
      sgd.zero_grad();
      const torch::Tensor mean = cross_entropy(plain->forward(samples.inputs), samples.targets);
      mean.backward();
      sgd.step();
      return std::pair(mean.item<double>(), 1.0);
    });
    if (comm.rank() == 0) std::cout << "gradient descent with rate " << rate << ": loss " << reached << std::endl;
  }
}
