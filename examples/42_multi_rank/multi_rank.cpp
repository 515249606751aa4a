// SPDX-License-Identifier: Apache-2.0
// Trials that are themselves parallel: each worker of two ranks trains a network by data parallelism, and stops early what does not look well.
//
// Build:   cmake --build build/release --target 42_multi_rank
// Run:     mpirun -n 4 build/release/bin/42_multi_rank
// Expect:  some trials pruned, and about 90 % of the test points right
#include <torch/torch.h>

#include <iostream>
#include <tw/data/distributed_sampler.hpp>
#include <tw/data/peaks.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/models/mlp.hpp>
#include <tw/mpi.hpp>
#include <tw/search/search.hpp>

using namespace tw::search;

constexpr int64_t epochs = 27;

/// The share of test points that are wrong.
double train(const Configuration& c, Trial& trial) {
  const tw::Communicator& comm = trial.comm();
  const tw::TensorDataset data = tw::make_peaks(4000, 1);
  const tw::TensorDataset test = tw::make_peaks(1000, 2);
  torch::manual_seed(trial.number());
  tw::models::Mlp model(std::vector<int64_t>{2, c.integer("width"), c.integer("width"), 5});
  torch::optim::Adam adam(model->parameters(), c.real("lr"));
  tw::DataParallel parallel(comm, *model, {.reduction = tw::Reduction::mean});
  const int64_t share = data.size() / comm.size();
  double wrong = 1;
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    for (int64_t at = 0; at + 50 <= share; at += 50) {
      const auto rows = torch::arange(at, at + 50) * comm.size() + static_cast<int>(comm.rank());
      adam.zero_grad();
      torch::cross_entropy_loss(model->forward(data.inputs().index_select(0, rows)), data.targets().index_select(0, rows)).backward();
      adam.step();
    }
    const torch::NoGradGuard no_gradients;
    wrong = 1 - model->forward(test.inputs()).argmax(1).eq(test.targets()).to(torch::kDouble).mean().item<double>();
    if (!trial.report(epoch, wrong)) break;
  }
  return wrong;
}

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const Space space{real("lr", 1e-4, 1e-1, log_scale), ordinal("width", {8, 16, 32, 64, 128})};
  Search search(comm, space, [](const Configuration& c, Trial& trial) { return Outcome(train(c, trial)); },
                {.ranks_per_worker = comm.size() % 2 == 0 ? 2 : 1, .evaluations = 40, .stopping = [] {
                   return halving_rule({.grace = 3, .eta = 3, .max_steps = epochs});
                 }});
  const SearchResult result = search.run();
  if (comm.rank() != 0) return 0;
  std::cout << result.complete << " trials complete, " << result.pruned << " pruned; best: " << 100 * (1 - result.best.loss) << " % right with "
            << Configuration(space, result.best.values).describe() << '\n';
}
