// SPDX-License-Identifier: Apache-2.0
// What data parallelism adds to a training step, for five contestants of p ranks each (10 ranks for p = 2): computation alone, with one barrier a
// step; the loop that simulation codes write (backward, then one blocking MPI_Allreduce per parameter); the same with one MPI_Allreduce of a flat
// copy; ours with a sharded optimizer and one copy of the parameters; ours.
//
// data_parallel/step:          a step of the loop over a step of ours, and over one with a sharded optimizer
// data_parallel/added:         the time that each adds to computation alone, round by round: a ratio of 2 means half as much
// data_parallel/scaling:       two independent ranks over ours
#include "measure.hpp"
#include "trainees.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <tw/data_parallel.hpp>
#include <tw/mpi/interop.hpp>

namespace {

using tw::benchmark::Trainee;

void allreduce_each_parameter(const torch::nn::Module& module, MPI_Comm comm, int ranks) {
  for (const auto& parameter : module.parameters()) {
    at::Tensor gradient = parameter.grad();
    MPI_Allreduce(MPI_IN_PLACE, gradient.data_ptr(), static_cast<int>(gradient.numel()), MPI_FLOAT, MPI_SUM, comm);
    gradient.div_(ranks);
  }
}

// Copies to `flat` and back, with one message.
void allreduce_flat_copy(const torch::nn::Module& module, std::vector<float>& flat, MPI_Comm comm, int ranks) {
  size_t at = 0;
  for (const auto& parameter : module.parameters()) {
    const auto n = static_cast<size_t>(parameter.numel());
    flat.resize(std::max(flat.size(), at + n));
    std::copy_n(parameter.grad().const_data_ptr<float>(), n, flat.begin() + static_cast<int64_t>(at));
    at += n;
  }
  MPI_Allreduce(MPI_IN_PLACE, flat.data(), static_cast<int>(at), MPI_FLOAT, MPI_SUM, comm);
  at = 0;
  for (const auto& parameter : module.parameters()) {
    float* gradient = parameter.grad().mutable_data_ptr<float>();
    for (int64_t i = 0; i < parameter.numel(); ++i) gradient[i] = flat[at++] / static_cast<float>(ranks);
  }
}

enum Contestant { alone, per_parameter, flat_copy, sharded, ours, count };

/// A contestant's step.
class Turn {
 public:
  Turn(const tw::benchmark::Contest& contest, Trainee trainee) : comm_(contest.comm()), who_(contest.contestant()), trainee_(std::move(trainee)) {
    if (who_ == sharded) {
      parallel_.emplace(comm_, trainee_.module(), tw::DataParallelOptions{.reduction = tw::Reduction::mean, .sharding = tw::Sharding::slices});
      optimizer_.emplace(parallel_->reducer(), parallel_->parameters(), tw::optimizer_like(trainee_.optimizer(), parallel_->parameters()),
                         tw::ShardedOptimizerOptions{.one_copy_per_node = true});
    } else if (who_ == ours) {
      parallel_.emplace(comm_, trainee_.module(), tw::DataParallelOptions{.reduction = tw::Reduction::mean});
    }
  }

  void operator()() {
    switch (who_) {
      case alone: trainee_.step(); return tw::barrier(comm_);
      case per_parameter: return trainee_.step([&] { allreduce_each_parameter(trainee_.module(), native_, comm_.size()); });
      case flat_copy: return trainee_.step([&] { allreduce_flat_copy(trainee_.module(), flat_, native_, comm_.size()); });
      case sharded: trainee_.backward(); return optimizer_->step();
      default: return trainee_.step();
    }
  }

 private:
  const tw::Communicator& comm_;
  int who_;
  Trainee trainee_;
  MPI_Comm native_ = tw::native_handle(comm_);
  std::vector<float> flat_;
  std::optional<tw::DataParallel> parallel_;
  std::optional<tw::ShardedOptimizer> optimizer_;
};

std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

void compare_step(const tw::benchmark::Contest& contest, const std::string& name, int steps, const std::function<Trainee()>& make) {
  Turn turn(contest, make());
  tw::benchmark::Case of{.benchmark = {}, .name = name, .baseline = {}, .steps = steps};
  of.step = [&] { turn(); };
  const auto times = tw::benchmark::take_turns(contest, of);
  const auto print = [&](const char* benchmark, const char* baseline, Contestant theirs, Contestant mine, bool added) {
    of.benchmark = benchmark;
    of.baseline = baseline;
    tw::benchmark::print(contest, of, added ? minus(times[theirs], times[alone]) : times[theirs],
                         added ? minus(times[mine], times[alone]) : times[mine]);
  };
  print("data_parallel/step", "mpi_per_parameter", per_parameter, ours, false);
  print("data_parallel/step_sharded", "mpi_per_parameter", per_parameter, sharded, false);
  print("data_parallel/added", "mpi_per_parameter", per_parameter, ours, true);
  print("data_parallel/added", "mpi_flat", flat_copy, ours, true);
  print("data_parallel/added_sharded", "mpi_per_parameter", per_parameter, sharded, true);
}

// Computation alone, here without a barrier between steps.
void compare_scaling(const tw::benchmark::Contest& contest) {
  Trainee trainee = tw::benchmark::make_lenet(64);
  std::optional<tw::DataParallel> parallel;
  if (contest.is_ours()) parallel.emplace(contest.comm(), trainee.module(), tw::DataParallelOptions{.reduction = tw::Reduction::mean});
  tw::benchmark::Case of{.benchmark = "data_parallel/scaling", .name = "lenet", .baseline = "independent_ranks", .steps = 20};
  of.step = [&] {
    if (contest.contestant() == alone || contest.is_ours()) trainee.step();
  };
  const auto times = tw::benchmark::take_turns(contest, of);
  tw::benchmark::print(contest, of, times[alone], times[ours]);
}

void measure_all(const tw::benchmark::Contest& contest) {
  for (const auto& [name, steps, make] : tw::benchmark::trainees()) compare_step(contest, name, steps, make);
  compare_scaling(contest);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all, count); }
