// SPDX-License-Identifier: Apache-2.0
// Elastic averaging with workers of two ranks each. Inside a worker, gradients are averaged in every step. Between workers, an elastic force pulls
// each one towards a centre on parameter servers, and no worker waits for another.
//
// Build:   cmake --build build/release --target 12_easgd_hybrid
// Run:     build/release/mpirun -n 4 build/release/bin/12_easgd_hybrid
// Expect:  2 workers of 2 ranks: loss 0.0... of the centre after 40 elastic steps of the slower one      (about 8 at first; below 0.1 at the end)
#include <torch/torch.h>

#include <iostream>
#include <tw/data_parallel.hpp>
#include <tw/parameter_server.hpp>

using namespace tw::parameter_server;

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  const int ranks = mpi.world().size() % 2 == 0 ? 2 : 1;
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 1));
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).nesterov(true));
  ElasticAveraging elastic(mpi.world(), model->parameters(), {.period = 10, .roles = {.ranks_per_worker = ranks}});
  tw::DataParallel parallel(elastic.group(), *model, {.reduction = tw::Reduction::mean});

  torch::manual_seed(100 + mpi.world().rank());
  const auto loss_of = [&] {
    const at::Tensor inputs = torch::rand({32, 8});
    return torch::mse_loss(model->forward(inputs), inputs.square().sum(1, true));
  };
  const int steps = 400 * (1 + mpi.world().rank() / ranks);  // as if the first worker were the slowest
  int64_t elastic_steps = 0;
  for (int step = 0; step < steps; ++step) {
    sgd.zero_grad();
    loss_of().backward();
    sgd.step();
    if (elastic.step()) ++elastic_steps;
  }
  elastic.finish();  // all ranks now have the centre

  const double loss = loss_of().item<double>();
  if (mpi.world().rank() == 0) {
    std::cout << mpi.world().size() / ranks << " workers of " << ranks << " ranks: loss " << loss << " of the centre after " << elastic_steps
              << " elastic steps of the slower one" << std::endl;
  }
}
