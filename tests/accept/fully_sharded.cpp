// SPDX-License-Identifier: Apache-2.0
// fully_sharded LAYERS: trains LAYERS layers of 4 MB, made without memory, for three steps of SGD. Prints the peak address space of a rank in MB, and
// the losses. With LAYERS 0, that is the address space of LibTorch and MPI alone.
#include <torch/torch.h>

#include <fstream>
#include <iostream>
#include <tw/comm/collectives.hpp>
#include <tw/data_parallel.hpp>

namespace {

constexpr int64_t width = 1024;

int64_t peak_of_address_space() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPeak:")) return std::stoll(line.substr(7)) / 1024;
  }
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const int layers = std::stoi(argv[1]);
  torch::manual_seed(1);
  tw::InitialValues initial;
  auto net = initial.record([&] {
    torch::nn::Sequential made;
    for (int i = 0; i < layers; ++i) made->push_back(torch::nn::Linear(torch::nn::LinearOptions(width, width).bias(false)));
    made->push_back(torch::nn::Linear(torch::nn::LinearOptions(width, 1)));
    return made;
  });
  tw::FullySharded sharded(comm, *net, {.reduction = tw::Reduction::mean, .unit_bytes = width * width * 4}, {.initial = &initial});
  torch::optim::SGD optimizer(sharded.slices(), 1e-2);
  torch::manual_seed(100 + comm.rank());
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    at::Tensor x = torch::rand({8, width});
    for (auto& layer : *net) x = torch::tanh(layer.forward(x)) + (layers > 0 ? x * 0.5 : x * 0);
    const at::Tensor loss = (x - 1).square().mean();
    loss.backward();
    optimizer.step();
    if (comm.rank() == 0) std::cout << "loss " << loss.item<double>() << std::endl;
  }
  const at::Tensor peak = torch::tensor(peak_of_address_space());
  tw::allreduce(comm, peak, tw::ReduceOp::max);
  if (comm.rank() == 0) std::cout << "address space " << peak.item<int64_t>() << " MB" << std::endl;
}
