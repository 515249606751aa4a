// SPDX-License-Identifier: Apache-2.0
// A simulation that owns MPI trains a surrogate of itself inside its time loop, in double precision. It passes its own communicator. Torchweave
// duplicates it, and neither initialises nor finalises MPI. Ranks have different numbers of samples, one of them none. For comparison, a second
// surrogate is trained by the loop that simulation codes usually have, with one blocking all-reduce per parameter.
//
// Build:   cmake --build build/release --target 02_simulation
// Run:     build/release/mpirun -n 3 build/release/bin/02_simulation
// Expect:  surrogate error 2.1e-01 -> 1.3e-04, the solver's mass is conserved     (the second number is at most 1e-3)
//          training takes 610 us a time step; with an all-reduce a parameter 720 us
#include <torch/torch.h>

#include <iostream>
#include <optional>
#include <tw/data_parallel.hpp>
#include <tw/mpi/interop.hpp>

constexpr int64_t cells = 16;
// Heat conduction on a ring by explicit Euler: a time step consists of ten small steps.
at::Tensor advance(at::Tensor heat) {
  for (int i = 0; i < 10; ++i) heat = heat + 0.2 * (heat.roll(1, 1) - 2 * heat + heat.roll(-1, 1));
  return heat;
}

/// Learns the map of one time step, from this rank's share of the domain.
struct Surrogate {
  Surrogate() { net->to(torch::kDouble); }
  /// One training step. The hand-written loop passes `reduce`, which runs between the backward pass and the update.
  void train(const at::Tensor& before, const at::Tensor& after, const std::function<void()>& reduce = [] {}) {
    const tw::Stopwatch watch;
    adam.zero_grad();
    torch::mse_loss(net->forward(before), after).backward();
    reduce();
    adam.step();
    time += watch.elapsed();
  }
  torch::nn::Sequential net = torch::nn::Sequential(torch::nn::Linear(cells, cells));
  torch::optim::Adam adam{net->parameters(), 1e-2};
  tw::Seconds time{0};
};

void simulate(MPI_Comm solver_comm, const std::optional<std::filesystem::path>& folder) {
  const auto mpi = tw::Environment::adopt();                      // MPI is already running; Torchweave never finalises it
  const auto comm = tw::Communicator::duplicate_of(solver_comm);  // solver_comm is not used for Torchweave's messages
  const int rank = comm.rank();
  torch::manual_seed(100 + rank);
  const at::Tensor first = torch::rand({rank == 1 ? 0 : 40 + 25 * rank, cells}, torch::kDouble);  // uneven, as after a mesh refinement
  const auto samples = static_cast<double>(first.size(0));
  const auto sum = [&](double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, solver_comm);  // the solver's own messages, unchanged
    return value;
  };

  Surrogate ours, by_hand;
  tw::DataParallel parallel(comm, *ours.net, {.reduction = tw::Reduction::sample_weighted});
  parallel.set_samples(first.size(0));  // 0 is allowed
  const double all_samples = sum(samples);
  tw::synchronize(comm, *by_hand.net);
  const auto reduce_each_parameter = [&] {
    for (const at::Tensor& parameter : by_hand.net->parameters()) {
      const at::Tensor gradient = samples > 0 ? parameter.grad().mul_(samples / all_samples) : parameter.grad().zero_();
      MPI_Allreduce(MPI_IN_PLACE, gradient.data_ptr(), static_cast<int>(gradient.numel()), MPI_DOUBLE, MPI_SUM, solver_comm);
    }
  };
  const auto error = [&] {
    const torch::NoGradGuard no_grad;
    return sum(torch::mse_loss(ours.net->forward(first), advance(first), at::Reduction::Sum).item<double>()) / (all_samples * cells);
  };
  const double first_error = error();
  constexpr int time_steps = 600;
  for (auto [step, heat] = std::pair(0, first); step < time_steps; ++step) {
    const at::Tensor next = advance(heat);  // the simulation
    ours.train(heat, next);
    by_hand.train(heat, next, reduce_each_parameter);
    heat = step % 4 == 3 ? torch::rand_like(heat) : next;  // a new experiment
  }
  const double last_error = error();
  const bool conserved = std::abs(sum(first.sum().item<double>()) - sum(advance(first).sum().item<double>())) < 1e-9 * all_samples;
  if (rank == 0) {
    std::cout << "surrogate error " << std::scientific << first_error << " -> " << last_error << ", the solver's mass is "
              << (conserved ? "conserved" : "lost") << "\ntraining takes " << std::fixed << std::llround(1e6 * ours.time.count() / time_steps)
              << " us a time step; with an all-reduce a parameter " << std::llround(1e6 * by_hand.time.count() / time_steps) << " us" << std::endl;
  }
  if (!folder) return;  // otherwise write the samples of all ranks to files, for `torchweave train configs/surrogate.toml`
  const auto write = [&](const char* part, const at::Tensor& rows) {
    std::filesystem::create_directories(*folder / part);
    tw::write_npy(*folder / part / tw::concat("inputs_", rank, ".npy"), rows);
    tw::write_npy(*folder / part / tw::concat("targets_", rank, ".npy"), advance(rows));
  };
  write("train", first.slice(0, 0, first.size(0) * 4 / 5));
  write("test", first.slice(0, first.size(0) * 4 / 5));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm solver_comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &solver_comm);
  simulate(solver_comm, argc == 3 && std::string(argv[1]) == "--write" ? std::optional(argv[2]) : std::nullopt);
  MPI_Comm_free(&solver_comm);
  MPI_Finalize();
}
