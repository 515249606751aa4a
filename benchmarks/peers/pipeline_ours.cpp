// SPDX-License-Identifier: Apache-2.0
// Prints the milliseconds of a forward and backward pass of a Pipeline. compare_pipelining.sh runs it in turns with other programs.
#include "../measure.hpp"

#include <torch/torch.h>

#include <iostream>
#include <string>
#include <tw/pipeline/pipeline.hpp>

constexpr int64_t width = 512;

int main(int argc, char** argv) {
  using namespace tw::pipeline;
  const tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  torch::set_num_threads(1);
  if (argc < 3) return 2;
  std::vector<BlockFactory> blocks;
  for (int i = 0; i < 16; ++i) {
    blocks.push_back(block([] { return torch::nn::Linear(width, width); }));
    blocks.push_back(block([] { return torch::nn::Tanh(); }));
  }
  Pipeline model(comm, blocks, {.schedule = std::string(argv[1]) == "gpipe" ? gpipe(comm.size(), 8) : one_forward_one_backward(comm.size(), 8)});
  const torch::Tensor x = torch::randn({std::stoll(argv[2]), width});
  const torch::Tensor y = torch::randn({std::stoll(argv[2]), width});
  std::vector<double> ms;
  for (int round = -3; round < 10; ++round) {
    comm.barrier();
    const tw::Stopwatch watch;
    for (int i = 0; i < 3; ++i) {
      model.zero_grad();
      model.run(x, y, [](const torch::Tensor& a, const torch::Tensor& b) { return torch::mse_loss(a, b); });
    }
    comm.barrier();
    if (round >= 0) ms.push_back(1e3 * watch.elapsed().count() / 3);
  }
  if (comm.rank() == 0) std::cout << tw::benchmark::percentile(ms, 0.5) << std::endl;
}
