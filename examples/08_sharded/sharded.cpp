// SPDX-License-Identifier: Apache-2.0
// An optimizer whose state is sharded over the ranks (ZeRO), for models whose optimizer state does not fit on every rank. Each rank updates its share
// of the parameters, and all ranks receive the result. Up to rounding, it equals the result of one process.
//
// Build:   cmake --build build/release --target 08_sharded
// Run:     mpirun -n 2 build/release/bin/08_sharded
// Expect:  loss 0.079 after 200 steps; the optimizer's state takes 50 % of 2.0 MB on each of 2 ranks; parameters are equal on 2 ranks
#include <torch/torch.h>

#include <iostream>
#include <tw/data_parallel.hpp>

namespace {

/// Bytes of an optimizer's state.
int64_t bytes_of_state(const torch::optim::Optimizer& optimizer) {
  int64_t bytes = 0;
  for (const auto& [parameter, state] : optimizer.state()) {
    const auto& adam = static_cast<const torch::optim::AdamParamState&>(*state);
    bytes += static_cast<int64_t>(adam.exp_avg().nbytes() + adam.exp_avg_sq().nbytes());
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(8, 480), torch::nn::Tanh(), torch::nn::Linear(480, 500), torch::nn::Tanh(),
                              torch::nn::Linear(500, 1));

  torch::optim::Adam prototype(model->parameters(), 1e-3);  // defines the rule, groups and rates; never makes a step
  tw::DataParallel parallel(comm, *model, {.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices});
  tw::ShardedOptimizer adam(parallel.reducer(), parallel.parameters(), tw::optimizer_like(prototype, parallel.parameters()));

  torch::manual_seed(100 + comm.rank());
  double loss_value = 0;
  constexpr int steps = 200;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor inputs = torch::rand({32, 8});
    const at::Tensor loss = torch::mse_loss(model->forward(inputs), inputs.square().sum(1, true));
    loss.backward();  // reduces gradients; each rank keeps its share
    adam.step();      // updates that share, and gathers the parameters
    loss_value = loss.item<double>();
  }

  int64_t elements = 0;
  for (const at::Tensor& parameter : model->parameters()) elements += parameter.numel();
  const double whole = 2.0 * 4 * static_cast<double>(elements);  // two moments of 4 bytes
  const double share = static_cast<double>(bytes_of_state(adam.local())) / whole;
  const auto report = tw::check_consistent(comm, *model);
  if (comm.rank() != 0) return 0;
  std::cout << "loss " << loss_value << " after " << steps << " steps; the optimizer's state takes " << std::round(100 * share) << " % of "
            << std::round(whole / 1e5) / 10 << " MB on each of " << comm.size() << (comm.size() == 1 ? " rank" : " ranks") << "; parameters are "
            << (report.consistent ? "equal" : "NOT equal") << " on " << report.ranks << (comm.size() == 1 ? " rank" : " ranks") << std::endl;
}
