// SPDX-License-Identifier: Apache-2.0
// data_parallel/step:    a training step with DataParallel against the loop that simulation codes write: backward, then one blocking
//                        MPI_Allreduce a parameter.
// data_parallel/scaling: samples a second on all ranks against one rank alone, the other asleep.
#include "measure.hpp"

#include <torch/torch.h>

#include <optional>
#include <tw/data_parallel.hpp>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/mpi/interop.hpp>

namespace {

/// A network, its data and its optimizer on one rank.
class Trainee {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor&)>;
  Trainee(std::shared_ptr<torch::nn::Module> module, Forward forward, at::Tensor inputs)
      : module_(std::move(module)),
        forward_(std::move(forward)),
        inputs_(std::move(inputs)),
        targets_(torch::randint(10, {inputs_.size(0)}, torch::kLong)),
        sgd_(module_->parameters(), torch::optim::SGDOptions(1e-3)) {}

  const torch::nn::Module& module() const { return *module_; }

  /// One step; `reduce` is called between backward and the update.
  void step(const std::function<void()>& reduce = [] {}) {
    sgd_.zero_grad();
    torch::cross_entropy_loss(forward_(inputs_), targets_).backward();
    reduce();
    sgd_.step();
  }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;
  at::Tensor inputs_;
  at::Tensor targets_;
  torch::optim::SGD sgd_;
};

Trainee make_lenet(int64_t batch) {
  tw::models::LeNet net;
  return {net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); }, torch::randn({batch, 1, 28, 28})};
}

Trainee make_mlp(const std::vector<int64_t>& widths, int64_t batch) {
  tw::models::Mlp net(widths);
  return {net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); }, torch::randn({batch, widths.front()})};
}

void allreduce_each_parameter(const torch::nn::Module& module, MPI_Comm comm, int ranks) {
  for (const auto& parameter : module.parameters()) {
    at::Tensor gradient = parameter.grad();
    MPI_Allreduce(MPI_IN_PLACE, gradient.data_ptr(), static_cast<int>(gradient.numel()), MPI_FLOAT, MPI_SUM, comm);
    gradient.div_(ranks);
  }
}

void compare_step(const tw::benchmark::Contest& contest, const std::string& name, int steps, const std::function<Trainee()>& make) {
  Trainee trainee = make();
  tw::benchmark::Case of{.benchmark = "data_parallel/step", .name = name, .baseline = "mpi_per_parameter", .steps = steps};
  const MPI_Comm native = tw::native_handle(contest.comm());
  std::optional<tw::DataParallel> parallel;
  if (contest.is_ours()) {
    parallel.emplace(contest.comm(), trainee.module(), tw::DataParallelOptions{.reduction = tw::Reduction::mean});
    of.step = [&] { trainee.step(); };
  } else {
    of.step = [&] { trainee.step([&] { allreduce_each_parameter(trainee.module(), native, contest.comm().size()); }); };
  }
  tw::benchmark::compare(contest, of);
}

void compare_scaling(const tw::benchmark::Contest& contest) {
  constexpr int steps = 20;
  Trainee trainee = make_lenet(64);
  const auto repeat = [&] {
    for (int i = 0; i < steps; ++i) trainee.step();
  };
  tw::benchmark::Case of{.benchmark = "data_parallel/scaling", .name = "lenet", .baseline = "one_rank", .steps = 1};
  std::optional<tw::DataParallel> parallel;
  if (contest.is_ours()) {
    parallel.emplace(contest.comm(), trainee.module(), tw::DataParallelOptions{.reduction = tw::Reduction::mean});
    of.step = repeat;
    of.units = 1.0 * steps * contest.comm().size();
  } else {
    of.step = [&] {
      if (contest.comm().rank() == 0) repeat();
      tw::benchmark::sleeping_barrier(contest.comm());
    };
    of.units = steps;
  }
  tw::benchmark::compare(contest, of);
}

void measure_all(const tw::benchmark::Contest& contest) {
  compare_step(contest, "mlp_5e4", 100, [] { return make_mlp({64, 192, 192, 10}, 64); });
  compare_step(contest, "lenet", 10, [] { return make_lenet(64); });
  compare_step(contest, "mlp_8e6", 5, [] { return make_mlp({1024, 1600, 1600, 1600, 800, 10}, 32); });
  compare_scaling(contest);
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
