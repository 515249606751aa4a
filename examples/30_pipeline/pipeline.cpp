// SPDX-License-Identifier: Apache-2.0
// A pipeline: each rank has a few blocks of a network, and works on one micro-batch while its neighbours work on others. The gradients are exactly
// those of one process. (parallelize() takes the same list of blocks, with other axes around it: docs/mesh.md.)
//
// Build:   cmake --build build/release --target 30_pipeline
// Run:     mpirun -n 2 build/release/bin/30_pipeline
// Expect:  a Gantt chart of a step, assuming that a forward pass takes 1 and a backward pass 2; then about 95 % of the test points right
#include <torch/torch.h>

#include <iostream>
#include <tw/base/random.hpp>
#include <tw/data/peaks.hpp>
#include <tw/mpi.hpp>
#include <tw/pipeline/pipeline.hpp>
#include <tw/planning/simulation.hpp>

constexpr int64_t width = 32;

int main(int argc, char** argv) {
  using namespace tw::pipeline;
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const tw::TensorDataset train = tw::make_peaks(4000, 1);
  const tw::TensorDataset test = tw::make_peaks(1000, 2);

  std::vector<BlockFactory> blocks{block([] { return torch::nn::Linear(2, width); })};
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(block([] { return torch::nn::Tanh(); }));
    blocks.push_back(block([] { return torch::nn::Linear(width, width); }));
  }
  blocks.push_back(block([] { return torch::nn::Tanh(); }));
  blocks.push_back(block([] { return torch::nn::Linear(width, 5); }));

  constexpr int micro_batches = 4;
  torch::manual_seed(1);  // on every rank, so that all blocks have the same initial values as in one process
  Pipeline net(comm, blocks, {.schedule = one_forward_one_backward(comm.size(), micro_batches)});
  if (comm.rank() == 0) std::cout << gantt_text(simulate(net.schedule(), std::vector<PassTimes>(static_cast<size_t>(comm.size()))), 72);
  torch::optim::Adam adam(net.parameters(), 1e-2);

  constexpr int epochs = 60;
  constexpr size_t batch = 100;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = tw::random_permutation(train.size(), 3, static_cast<uint64_t>(epoch));
    adam.param_groups()[0].options().set_lr(1e-2 * (1 - static_cast<double>(epoch) / epochs));
    double loss = 0;
    for (size_t begin = 0; begin < order.size(); begin += batch) {
      const tw::Batch samples = train.batch({order.data() + begin, batch});
      adam.zero_grad();
      loss = net.run(samples.inputs, samples.targets, [](const auto& y, const auto& t) { return torch::cross_entropy_loss(y, t); });
      adam.step();
    }
    if (comm.rank() == 0 && epoch % 20 == 19) std::cout << "epoch " << epoch + 1 << ": loss of the last batch " << loss << '\n';
  }
  const auto right = net.forward(test.inputs()).argmax(1).eq(test.targets()).sum().item<int64_t>();
  if (comm.rank() == 0) std::cout << 0.1 * static_cast<double>(right) << " % of the test points right" << std::endl;
}
