// SPDX-License-Identifier: Apache-2.0
// Ranks train alone and synchronise every 50 steps (DiLoCo), for slow networks: a fiftieth of the bytes, and of the waiting time.
//
// Build:   cmake --build build/release --target 09_diloco
// Run:     mpirun -n 2 build/release/bin/09_diloco
// Expect:  loss 0.031 after 600 steps; the ranks met 12 times and gave 0.107 MB where reducing every gradient gives 5.3 MB
//          (a loss below 0.2)
#include <torch/torch.h>

#include <iostream>
#include <tw/data_parallel.hpp>

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(8, 128), torch::nn::Tanh(), torch::nn::Linear(128, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));

  torch::optim::AdamW inner(model->parameters(), 3e-3);  // independent on each rank
  // Copies rank 0's parameters to all ranks, and makes an outer step every 50 inner steps. The paper's momentum of 0.9 needs more than 12 outer
  // steps.
  tw::DiLoCo outer(comm, *model, {.period = 50, .outer_momentum = 0.5});

  torch::manual_seed(100 + comm.rank());
  constexpr int steps = 600;
  int meetings = 0;
  double loss_value = 0;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor inputs = torch::rand({32, 8});
    inner.zero_grad();
    const at::Tensor loss = torch::mse_loss(model->forward(inputs), inputs.square().sum(1, true));
    loss.backward();
    inner.step();
    if (outer.step()) ++meetings;
    loss_value = loss.item<double>();
  }
  if (outer.finish()) ++meetings;

  int64_t elements = 0;
  for (const at::Tensor& parameter : model->parameters()) elements += parameter.numel();
  if (comm.rank() != 0) return 0;
  std::cout << "loss " << loss_value << " after " << steps << " steps; the ranks met " << meetings << " times and gave "
            << static_cast<double>(outer.bytes_communicated()) / 1e6 << " MB where reducing every gradient gives "
            << 4e-6 * static_cast<double>(elements) * steps << " MB" << std::endl;
}
