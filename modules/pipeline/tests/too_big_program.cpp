// SPDX-License-Identifier: Apache-2.0
// too_big_program BLOCKS: trains BLOCKS blocks of 64 MiB for two steps, in stages on all ranks. Prints the largest address space of a rank in KiB.
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <string>
#include <tw/comm/objects.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/pipeline/pipeline.hpp>

namespace {

constexpr int64_t width = 4096;

int64_t peak_of_address_space() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    int64_t kib = 0;
    if (word == "VmPeak:" && in >> kib) return kib;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tw::pipeline;
  tw::Environment mpi(argc, argv);
  const tw::Communicator comm = mpi.world().dup();
  at::set_num_threads(1);
  const std::vector<BlockFactory> blocks(static_cast<size_t>(std::stoi(argv[1])),
                                         block([] { return torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)); }));
  Pipeline net(comm, blocks, {.schedule = one_forward_one_backward(comm.size(), 2)});
  torch::optim::SGD sgd(net.parameters(), 0.01);
  const torch::Tensor x = torch::ones({4, width});
  double loss = 0;
  for (int step = 0; step < 2; ++step) {
    sgd.zero_grad();
    loss = net.run(x, x, [](const torch::Tensor& y, const torch::Tensor& t) { return torch::mse_loss(y, t); });
    sgd.step();
  }
  int64_t peak = 0;
  for (const std::string& each : tw::allgather_strings(comm, std::to_string(peak_of_address_space())))
    peak = std::max<int64_t>(peak, std::stoll(each));
  if (comm.rank() == 0) std::cout << "loss " << loss << "; peak " << peak << std::endl;
}
