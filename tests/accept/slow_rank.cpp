// SPDX-License-Identifier: Apache-2.0
// LeNet on Fashion-MNIST on several ranks, the first of which sleeps for four step lengths in each step: the time until 85 % of test images are
// classified correctly, by all-reduce and by parameter servers. With servers, the centre is tested. Run: mpirun -n 3 slow_rank DATA [SEEDS]
#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <torch/nn/utils/convert_parameters.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <first_samples.hpp>
#include <map>
#include <median.hpp>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tw/base/clock.hpp>
#include <tw/comm/shared_tensor.hpp>
#include <tw/data/image_dataset.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/models/lenet.hpp>
#include <tw/mpi/environment.hpp>
#include <tw/parameter_server.hpp>

namespace {

using namespace tw::parameter_server;

constexpr int64_t batch = 64;  // per rank
constexpr int64_t test_samples = 2000;
constexpr int64_t steps_a_test = 25;  // steps of the testing rank between tests
constexpr double goal = 0.85;
constexpr double sleeps = 4;  // in step lengths
constexpr double max_s = 300;

struct Data {
  explicit Data(const char* folder) : test(tw::testing::first_samples(tw::load_mnist(folder, tw::Split::test), test_samples)) {
    const tw::ImageDataset all = tw::load_mnist(folder, tw::Split::train);
    train = tw::testing::first_samples(all, all.size());
  }
  tw::Batch train;
  tw::Batch test;
};

double accuracy(tw::models::LeNet& model, const tw::Batch& test) {
  const torch::NoGradGuard no_gradients;
  return model->forward(test.inputs).argmax(1).eq(test.targets).to(at::kDouble).mean().item<double>();
}

/// A network and its optimizer on one rank.
struct Trainee {
  explicit Trainee(uint64_t seed) : model((torch::manual_seed(seed), tw::models::LeNet())) {}

  void step(const tw::Batch& train) {
    const at::Tensor rows = at::randint(train.inputs.size(0), {batch}, at::kLong);
    sgd.zero_grad();
    at::cross_entropy_loss(model->forward(train.inputs.index_select(0, rows)), train.targets.index_select(0, rows)).backward();
    sgd.step();
  }

  tw::models::LeNet model;
  torch::optim::SGD sgd{model->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9).nesterov(true)};
};

/// The length of a step in s while all ranks compute; the same on all ranks.
double step_length(const tw::Communicator& comm, const Data& data) {
  Trainee trainee(1);
  constexpr int steps = 20;
  trainee.step(data.train);
  comm.barrier();
  const tw::Stopwatch watch;
  for (int i = 0; i < steps; ++i) trainee.step(data.train);
  double seconds = watch.elapsed().count() / steps / comm.size();
  tw::mpi::allreduce(comm, {&seconds, 1, tw::ElementType::float64}, tw::ReduceOp::sum);
  return seconds;
}

std::unique_ptr<Worker> make_worker(const tw::Communicator& comm, const std::string& algorithm, const std::vector<at::Tensor>& parameters) {
  if (algorithm == "downpour") return std::make_unique<Downpour>(comm, parameters, DownpourOptions{.push_interval = 5, .pull_interval = 5});
  return std::make_unique<ElasticAveraging>(comm, parameters, ElasticOptions{.period = 5});
}

/// Seconds until the goal is reached; the last rank tests.
double time_to_goal(const tw::Communicator& comm, const std::string& algorithm, const Data& data, tw::Seconds sleep, uint64_t seed) {
  Trainee trainee(seed);
  Trainee tested(seed);
  std::optional<tw::DataParallel> reduced;
  std::unique_ptr<Worker> worker;
  if (algorithm == "all_reduce") {
    reduced.emplace(comm, *trainee.model, tw::ReducerOptions{.reduction = tw::Reduction::mean});
  } else {
    worker = make_worker(comm, algorithm, trainee.model->parameters());
  }
  torch::manual_seed(seed * 100 + static_cast<uint64_t>(comm.rank()));
  const bool tests = comm.rank() == comm.size() - 1;
  const at::Tensor shared = tw::node_tensor(comm, {1}, at::kLong);
  const std::atomic_ref<int64_t> over(*shared.data_ptr<int64_t>());
  comm.barrier();
  const tw::Stopwatch watch;
  double seconds = 0;
  for (int64_t step = 1; worker == nullptr || over.load() == 0; ++step) {
    trainee.step(data.train);
    if (worker) worker->step();
    if (comm.rank() == 0) std::this_thread::sleep_for(sleep);
    if (step % steps_a_test != 0) continue;
    if (tests) {
      const at::Tensor values = worker ? worker->centre().prefetch().take() : torch::nn::utils::parameters_to_vector(trainee.model->parameters());
      torch::nn::utils::vector_to_parameters(values, tested.model->parameters());
      seconds = watch.elapsed().count();
      if (accuracy(tested.model, data.test) >= goal || seconds > max_s) over.store(1);
    }
    if (worker) continue;
    comm.barrier();  // all ranks see `over` at the same step
    if (over.load() != 0) break;
    comm.barrier();
  }
  if (worker) worker->finish();
  tw::mpi::allreduce(comm, {&seconds, 1, tw::ElementType::float64}, tw::ReduceOp::max);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const tw::Environment mpi(argc, argv);
  const tw::Communicator& comm = mpi.world();
  const int seeds = argc > 2 ? std::atoi(argv[2]) : 3;
  at::set_num_threads(1);
  const Data data(argv[1]);
  const double length = step_length(comm, data);
  std::map<std::string, std::vector<double>> seconds;
  for (int seed = 1; seed <= seeds; ++seed) {
    for (const char* algorithm : {"all_reduce", "downpour", "easgd"}) {
      seconds[algorithm].push_back(time_to_goal(comm, algorithm, data, tw::Seconds(sleeps * length), static_cast<uint64_t>(seed)));
      if (comm.rank() == 0) std::printf("seed %d, %s: %.1f s\n", seed, algorithm, seconds[algorithm].back());
    }
  }
  const double baseline = tw::testing::median_of(seconds["all_reduce"]);
  bool shorter = true;
  for (const char* algorithm : {"downpour", "easgd"}) {
    const double ours = tw::testing::median_of(seconds[algorithm]);
    shorter = shorter && ours < baseline;
    if (comm.rank() == 0) std::printf("time to %.0f %% by %s: %.2f of that by all-reduce\n", 100 * goal, algorithm, ours / baseline);
  }
  return shorter ? 0 : 1;
}
