// SPDX-License-Identifier: Apache-2.0
// Population-based training: eight networks train at the same time. Those that do badly copy the weights and the optimizer state of a good one, and
// continue with another learning rate. The result is a network, and a learning-rate schedule that no single trial could have. Members are compared on
// a validation set; only the best network is evaluated on the test set, at the end.
//
// Build:   cmake --build build/release --target 43_pbt
// Run:     mpirun -n 2 build/release/bin/43_pbt
// Expect:  some members that copied another, about 90 % of the points right, and the learning rates that led there
#include <torch/torch.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <tw/comm/collectives.hpp>
#include <tw/data/peaks.hpp>
#include <tw/models/mlp.hpp>
#include <tw/mpi.hpp>
#include <tw/search/ledger.hpp>
#include <tw/search/search.hpp>

using namespace tw::search;

constexpr int64_t epochs = 24;

using Model = tw::models::Mlp;

double share_wrong(Model& model, const tw::TensorDataset& set) {
  const torch::NoGradGuard no_gradients;
  return 1 - model->forward(set.inputs()).argmax(1).eq(set.targets()).to(torch::kDouble).mean().item<double>();
}

using Networks = std::map<int64_t, Model>;  // by member: those that finished on this rank

/// Returns the share of misclassified validation points. It is called again after each pause. attach() then restores the epoch and the tensors,
/// either the member's own or those of the member that it copies.
Outcome train(const Configuration& c, Trial& trial, Networks& networks) {
  const tw::TensorDataset data = tw::make_peaks(2000, 1);
  const tw::TensorDataset validation = tw::make_peaks(1000, 2);
  torch::manual_seed(trial.number());
  Model model(std::vector<int64_t>{2, 32, 32, 5});
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(c.real("lr")).momentum(c.real("momentum")));
  double wrong = 1;
  for (int64_t epoch = trial.attach(*model, sgd) + 1; epoch <= epochs; ++epoch) {
    for (int64_t at = 0; at < data.size(); at += 25) {
      sgd.zero_grad();
      torch::cross_entropy_loss(model->forward(data.inputs().narrow(0, at, 25)), data.targets().narrow(0, at, 25)).backward();
      sgd.step();
    }
    wrong = share_wrong(model, validation);
    if (!trial.report(epoch, wrong)) return wrong;
  }
  networks.insert_or_assign(trial.number(), model);
  return wrong;
}

/// The share of test points that a member's network misclassifies, computed on the rank that has it; 2 if no rank has it.
double test(const tw::Communicator& comm, Networks& networks, int64_t member) {
  const auto mine = networks.find(member);
  const at::Tensor wrong = torch::full({1}, mine == networks.end() ? 2.0 : share_wrong(mine->second, tw::make_peaks(1000, 3)), torch::kDouble);
  tw::allreduce(comm, wrong, tw::ReduceOp::min);
  return wrong.item<double>();
}

int main(int argc, char** argv) {
  tw::Environment mpi(argc, argv);
  tw::Communicator comm = mpi.world().dup();
  const std::filesystem::path folder = "runs/pbt";
  const Space space{real("lr", 1e-4, 1, log_scale), real("momentum", 0, 0.95)};
  Networks networks;
  const auto objective = [&](const Configuration& c, Trial& trial) { return train(c, trial, networks); };
  Search search(comm, space, objective,
                {.evaluations = 8, .journal = folder, .scheduler = PopulationTrainingOptions{.interval = 3, .max_steps = epochs}});
  const SearchResult result = search.run();
  const double wrong = test(comm, networks, result.best.trial);
  if (comm.rank() != 0) return 0;

  const Ledger ledger = read_ledger(folder, space);
  size_t copies = 0;
  for (const LedgerEntry& entry : ledger.trials) copies += entry.copies.size();
  std::cout << result.complete << " members, who copied another " << copies << " times; the best has " << 100 * (1 - result.best.loss)
            << " % right on the validation set, with " << Configuration(space, result.best.values).describe() << '\n';
  if (wrong <= 1) std::cout << "  on the test set, looked at for the first time: " << 100 * (1 - wrong) << " % right\n";
  for (const Copy& copy : ledger.find(result.best.trial)->copies) {
    std::cout << "  after epoch " << copy.step << " it went on from member " << copy.original << " with "
              << Configuration(space, copy.values).describe() << '\n';
  }
}
