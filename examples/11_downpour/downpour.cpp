// SPDX-License-Identifier: Apache-2.0
// Ranks that train at their own speed (Downpour SGD). Each pushes its updates to parameter servers and pulls the common parameters from them, so a
// slow rank does not delay the others.
//
// Build:   cmake --build build/release --target 11_downpour
// Run:     build/release/mpirun -n 3 build/release/bin/11_downpour
// Expect:  loss 0.0... of the centre after 81 pushes of rank 0      (about 8 at first; below 0.1 at the end)
#include <torch/torch.h>

#include <iostream>
#include <tw/parameter_server.hpp>

using namespace tw::parameter_server;

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const int rank = mpi.world().rank();
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  torch::optim::SGD sgd(model->parameters(), 0.05);  // independent on each worker
  Downpour worker(mpi.world(), model->parameters(), {.push_interval = 5, .pull_interval = 5, .rule = {rules::adagrad({.lr = 0.05})}});

  torch::manual_seed(100 + rank);
  const auto loss_of = [&] {
    const at::Tensor inputs = torch::rand({32, 8});
    return torch::mse_loss(model->forward(inputs), inputs.square().sum(1, true));
  };
  const int steps = 400 * (rank + 1);  // as if rank 0 were the slowest
  for (int step = 0; step < steps; ++step) {
    sgd.zero_grad();
    loss_of().backward();
    sgd.step();
    worker.step();
  }
  worker.finish();  // all ranks now have the centre

  if (rank == 0)
    std::cout << "loss " << loss_of().item<double>() << " of the centre after " << worker.traffic().pushes << " pushes of rank 0" << std::endl;
}
