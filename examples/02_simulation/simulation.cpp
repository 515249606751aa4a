// SPDX-License-Identifier: Apache-2.0
// A simulation that owns MPI trains a surrogate of itself, in place and in double precision. It hands in a communicator of its own; Torchweave
// duplicates it and neither initialises nor finalises MPI. Ranks hold unequal numbers of samples, one of them none.
//
// Build:   cmake --build build/release --target 02_simulation
// Run:     mpirun -n 3 build/release/bin/02_simulation
// Expect:  surrogate error 2.1e-01 -> 1.3e-04, the solver's mass is conserved     (the second at most 1e-3)
#include <torch/torch.h>

#include <cmath>
#include <iostream>
#include <tw/data_parallel.hpp>
#include <tw/mpi/interop.hpp>

/// Heat on a ring of 16 cells, explicit Euler; every rank solves initial conditions of its own.
class Solver {
 public:
  explicit Solver(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    const int64_t samples = rank_ == 1 ? 0 : 40 + 25 * rank_;  // uneven, as after a mesh refinement
    torch::manual_seed(100 + rank_);
    before_ = torch::rand({samples, cells}, torch::kDouble);
    after_ = before_;
    for (int step = 0; step < 10; ++step) after_ = after_ + 0.2 * (after_.roll(1, 1) - 2 * after_ + after_.roll(-1, 1));
  }

  /// The lines that a user adds to a simulation.
  void train_surrogate() {
    const auto mpi = tw::Environment::adopt();                // MPI is running; we never finalise it
    const auto comm = tw::Communicator::duplicate_of(comm_);  // comm_ stays untouched
    tw::DataParallel parallel(comm, *surrogate_, {.reduction = tw::Reduction::sample_weighted});
    parallel.set_samples(before_.size(0));  // may be 0
    torch::optim::Adam adam(surrogate_->parameters(), 1e-2);
    first_error_ = error();
    for (int step = 0; step < 600; ++step) {
      adam.zero_grad();
      torch::mse_loss(surrogate_->forward(before_), after_).backward();
      adam.step();
    }
    last_error_ = error();
  }

  /// Leaves the samples of all ranks in files, for `torchweave train configs/surrogate.toml`.
  void write(const std::filesystem::path& folder) const {
    const int64_t trained = before_.size(0) * 4 / 5;
    for (const bool train : {true, false}) {
      const auto part = folder / (train ? "train" : "test");
      const auto rows = [&](const at::Tensor& all) { return train ? all.narrow(0, 0, trained) : all.slice(0, trained); };
      std::filesystem::create_directories(part);
      tw::write_npy(part / tw::concat("inputs_", rank_, ".npy"), rows(before_));
      tw::write_npy(part / tw::concat("targets_", rank_, ".npy"), rows(after_));
    }
  }

  void report() const {
    double masses[2] = {before_.sum().item<double>(), after_.sum().item<double>()};
    MPI_Allreduce(MPI_IN_PLACE, masses, 2, MPI_DOUBLE, MPI_SUM, comm_);  // the solver's own messages, as ever
    if (rank_ != 0) return;
    std::cout << "surrogate error " << std::scientific << first_error_ << " -> " << last_error_ << ", the solver's mass is "
              << (std::abs(masses[0] - masses[1]) < 1e-9 * masses[0] ? "conserved" : "lost") << std::endl;
  }

 private:
  /// Mean squared error over the samples of all ranks.
  double error() {
    const torch::NoGradGuard no_grad;
    double sums[2] = {torch::mse_loss(surrogate_->forward(before_), after_, at::Reduction::Sum).item<double>(), static_cast<double>(before_.numel())};
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, comm_);
    return sums[0] / sums[1];
  }

  static constexpr int64_t cells = 16;
  MPI_Comm comm_;
  int rank_ = 0;
  at::Tensor before_;  // [samples, cells]
  at::Tensor after_;   // [samples, cells], 10 time steps later
  torch::nn::Linear surrogate_ = [] {
    torch::nn::Linear layer(cells, cells);
    layer->to(torch::kDouble);
    return layer;
  }();
  double first_error_ = 0;
  double last_error_ = 0;
};

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm solver_comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &solver_comm);
  {
    Solver solver(solver_comm);
    solver.train_surrogate();
    solver.report();
    if (argc == 3 && std::string(argv[1]) == "--write") solver.write(argv[2]);
  }
  MPI_Comm_free(&solver_comm);
  MPI_Finalize();
}
