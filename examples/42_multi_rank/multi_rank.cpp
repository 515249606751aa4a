// SPDX-License-Identifier: Apache-2.0
// Trials that are themselves parallel: each worker of two ranks trains a network by data parallelism, and stops trials early if they look bad on the
// validation set. The best configuration is trained once more, and only then evaluated on the test set.
//
// Build:   cmake --build build/release --target 42_multi_rank
// Run:     build/release/mpirun -n 4 build/release/bin/42_multi_rank
// Expect:  some trials pruned, and about 90 % of the points right
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
using Model = tw::models::Mlp;

double share_wrong(Model& model, const tw::TensorDataset& set) {
  const torch::NoGradGuard no_gradients;
  return 1 - model->forward(set.inputs()).argmax(1).eq(set.targets()).to(torch::kDouble).mean().item<double>();
}

/// Calls `go_on(epoch, share of misclassified validation points)` after each epoch.
template <class GoOn>
Model train(const tw::Communicator& comm, const Configuration& c, int64_t trial, const GoOn& go_on) {
  const tw::TensorDataset data = tw::make_peaks(2000, 1);
  const tw::TensorDataset validation = tw::make_peaks(1000, 2);
  torch::manual_seed(static_cast<uint64_t>(trial));
  Model model(std::vector<int64_t>{2, c.integer("width"), c.integer("width"), 5});
  torch::optim::Adam adam(model->parameters(), c.real("lr"));
  tw::DataParallel parallel(comm, *model, {.reduction = tw::Reduction::mean});
  const int64_t share = data.size() / comm.size();
  for (int64_t epoch = 1; epoch <= epochs; ++epoch) {
    for (int64_t at = 0; at + 50 <= share; at += 50) {
      const auto rows = torch::arange(at, at + 50) * comm.size() + static_cast<int>(comm.rank());
      adam.zero_grad();
      torch::cross_entropy_loss(model->forward(data.inputs().index_select(0, rows)), data.targets().index_select(0, rows)).backward();
      adam.step();
    }
    if (!go_on(epoch, share_wrong(model, validation))) break;
  }
  return model;
}

Outcome objective(const Configuration& c, Trial& trial) {
  double wrong = 1;
  train(trial.comm(), c, trial.number(), [&](int64_t epoch, double now) { return trial.report(epoch, wrong = now); });
  return wrong;
}

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const Space space{real("lr", 1e-4, 1e-1, log_scale), ordinal("width", {8, 16, 32, 64, 128})};
  const int ranks = comm.size() % 2 == 0 ? 2 : 1;
  Search search(comm, space, objective, {.ranks_per_worker = ranks, .evaluations = 40, .scheduler = [] {
                                           return halving_rule({.grace = 3, .eta = 3, .max_steps = epochs});
                                         }});
  const SearchResult result = search.run();
  const Configuration best(space, result.best.values);
  const tw::Communicator worker = comm.split(comm.rank() / ranks, comm.rank());
  Model model = train(worker, best, result.best.trial, [](int64_t, double) { return true; });
  const double wrong = share_wrong(model, tw::make_peaks(1000, 3));
  if (comm.rank() != 0) return 0;
  std::cout << result.complete << " trials complete, " << result.pruned << " pruned; best: " << 100 * (1 - result.best.loss)
            << " % of the validation points right with " << best.describe() << ", and " << 100 * (1 - wrong) << " % of the test points\n";
}
