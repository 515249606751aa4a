// SPDX-License-Identifier: Apache-2.0
// train/overhead: an epoch with the Trainer, including metrics, log, progress display and the check for non-finite numbers, against a hand-written
// loop around the same DataParallel, loader and optimizer. Both include the construction of model and DataParallel.
#include "measure.hpp"

#include <torch/torch.h>

#include <sstream>
#include <tw/models/lenet.hpp>
#include <tw/models/mlp.hpp>
#include <tw/train.hpp>

namespace {

constexpr int64_t batch = 64;  // per rank
const tw::TensorDataset no_test_set(torch::empty({0, 1}), torch::empty({0}, torch::kLong));

void train_by_hand(const tw::Communicator& comm, const tw::train::Model& model, const tw::Dataset& data) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(1e-3));
  tw::DataParallel parallel(comm, model.parameters, {.reduction = tw::Reduction::sample_weighted});
  tw::Loader loader(data, tw::DistributedSampler(static_cast<size_t>(data.size()), comm.size(), comm.rank()), {.global_batch = batch * comm.size()});
  loader.begin_epoch(0);
  double loss_sum = 0;
  while (const auto samples = loader.next()) {
    sgd.zero_grad();
    const at::Tensor loss = torch::cross_entropy_loss(model.forward(samples->inputs), samples->targets);
    parallel.set_samples(samples->size());
    loss.backward();
    sgd.step();
    loss_sum += loss.item<double>();
  }
  const at::Tensor mean = torch::tensor(loss_sum);
  tw::allreduce(comm, mean, tw::ReduceOp::sum);
}

void train_by_trainer(const tw::Communicator& comm, const tw::train::Model& model, const tw::Dataset& data, const std::string& name) {
  torch::optim::SGD sgd(model.tensors(), torch::optim::SGDOptions(1e-3));
  tw::train::Options options{.name = "bench_" + name, .output = "build/bench_runs", .batch_size = batch};
  options.checkpoint.every_epochs = 0;
  tw::train::Trainer trainer(comm, model, sgd, tw::train::classification(), data, no_test_set, options);
  std::ostringstream screen;
  std::optional<tw::train::Console> console;
  std::optional<tw::train::MetricsLog> log;
  if (comm.rank() == 0) {
    trainer.add(console.emplace(screen, /*terminal=*/true));
    trainer.add(log.emplace(options));
  }
  trainer.run();
}

void compare(const tw::benchmark::Contest& contest, const std::string& name, int64_t steps, const tw::train::Model& model,
             const std::vector<int64_t>& shape) {
  std::vector<int64_t> sizes{steps * batch * contest.comm().size()};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  const tw::TensorDataset data(torch::randn(sizes), torch::randint(10, {sizes[0]}, torch::kLong));
  tw::benchmark::Case of{.benchmark = "train/overhead", .name = name, .baseline = "bare_loop", .rounds = 10, .steps = 1};
  of.units = static_cast<double>(steps);
  of.step = [&] {
    if (contest.is_ours()) {
      train_by_trainer(contest.comm(), model, data, name);
    } else {
      train_by_hand(contest.comm(), model, data);
    }
  };
  tw::benchmark::compare(contest, of);
}

void measure_all(const tw::benchmark::Contest& contest) {
  compare(contest, "mlp_5e4", 1600, tw::train::model_of(tw::models::Mlp(std::vector<int64_t>{64, 192, 192, 10})), {64});
  compare(contest, "lenet", 200, tw::train::model_of(tw::models::LeNet()), {1, 28, 28});
}

}  // namespace

int main(int argc, char** argv) { return tw::benchmark::run(argc, argv, measure_all); }
