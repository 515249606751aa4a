// SPDX-License-Identifier: Apache-2.0
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <tw/base/contract.hpp>
#include <tw/comm/collectives.hpp>
#include <tw/data/distributed_sampler.hpp>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/train/fit.hpp>

namespace tw::train {
namespace {

// Samples of an evaluation batch: large enough for speed, small enough for memory.
constexpr size_t evaluation_batch = 256;

// Sums over ranks, so that means are exact whatever the ranks' counts are.
std::vector<double> sum_over_ranks(const Communicator& comm, std::vector<double> values) {
  const at::Tensor tensor = torch::from_blob(values.data(), {static_cast<int64_t>(values.size())}, torch::kDouble);
  allreduce(comm, tensor, ReduceOp::sum);
  return values;
}

Batch next_batch(const ImageDataset& dataset, DistributedSampler& sampler, size_t batch_size) {
  const auto indices = sampler.next(batch_size).value_or(std::vector<size_t>{});
  return dataset.batch(std::vector<int64_t>(indices.begin(), indices.end()));
}

struct Evaluation {
  double loss = 0;
  double accuracy = 0;
};

Evaluation evaluate(const Communicator& comm, const Model& model, const ImageDataset& dataset) {
  const torch::NoGradGuard no_grad;
  model.module->eval();
  DistributedSampler sampler(static_cast<size_t>(dataset.size()), comm.size(), comm.rank(), {.shuffle = false});
  sampler.set_epoch(0);
  double loss = 0;
  double correct = 0;
  for (Batch batch = next_batch(dataset, sampler, evaluation_batch); batch.size() > 0; batch = next_batch(dataset, sampler, evaluation_batch)) {
    const at::Tensor logits = model.forward(batch.inputs);
    loss += torch::cross_entropy_loss(logits, batch.targets, {}, at::Reduction::Sum).item<double>();
    correct += logits.argmax(1).eq(batch.targets).sum().item<double>();
  }
  model.module->train();
  const auto sums = sum_over_ranks(comm, {loss, correct});
  const auto samples = static_cast<double>(std::max<int64_t>(1, dataset.size()));
  return {sums[0] / samples, sums[1] / samples};
}

}  // namespace

void Options::validate() const {
  TW_EXPECTS(!name.empty(), "name must not be empty");
  TW_EXPECTS(epochs >= 0, "epochs must not be negative, got ", epochs);
  TW_EXPECTS(batch_size > 0, "batch_size must be positive, got ", batch_size);
  TW_EXPECTS(seed >= 0, "seed must not be negative, got ", seed);
}

Summary fit(const Communicator& comm, const Model& model, torch::optim::Optimizer& optimizer, const ImageDataset& train, const ImageDataset& test,
            const Options& options, const std::vector<Observer*>& observers) {
  options.validate();
  TW_EXPECTS(train.size() > 0, "there is nothing to train on");
  const auto notify = [&](auto&& call) {
    if (comm.rank() != 0) return;
    for (Observer* observer : observers) call(*observer);
  };

  // Ranks may have unequal batches at the end of an epoch, or none; weighted by samples, every sample counts the same.
  DataParallel parallel(comm, *model.module, {.reduction = Reduction::sample_weighted});
  DistributedSampler sampler(static_cast<size_t>(train.size()), comm.size(), comm.rank(), {.seed = static_cast<uint64_t>(options.seed)});
  const auto batch_size = static_cast<size_t>(options.batch_size);
  const auto steps_per_epoch = static_cast<int64_t>(sampler.batches(batch_size));

  Summary summary{.ranks = comm.size(), .epochs = options.epochs, .test_samples = test.size()};
  for (const auto& parameter : model.module->parameters()) summary.parameters += parameter.requires_grad() ? parameter.numel() : 0;
  model.module->train();

  for (int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    sampler.set_epoch(epoch - 1);
    notify([&](Observer& observer) { observer.on_epoch_begin(epoch, train.size()); });
    double loss_sum = 0;
    const Stopwatch epoch_watch;
    for (int64_t step = 1; step <= steps_per_epoch; ++step) {
      const Batch batch = next_batch(train, sampler, batch_size);
      optimizer.zero_grad();
      const at::Tensor loss = torch::cross_entropy_loss(model.forward(batch.inputs), batch.targets);
      parallel.set_samples(batch.size());
      loss.backward();
      optimizer.step();

      const double mean_loss = batch.size() > 0 ? loss.item<double>() : 0.0;
      loss_sum += mean_loss * static_cast<double>(batch.size());
      const int64_t trained = std::min(train.size(), step * options.batch_size * comm.size());
      notify([&](Observer& observer) { observer.on_step({epoch, trained, mean_loss}); });
    }
    comm.barrier();  // the epoch takes as long as its slowest rank
    const Seconds train_time = epoch_watch.elapsed();

    const double train_loss = sum_over_ranks(comm, {loss_sum})[0] / static_cast<double>(train.size());
    const Evaluation evaluation = evaluate(comm, model, test);
    summary.train_time += train_time;
    summary.steps += steps_per_epoch;
    summary.test_loss = evaluation.loss;
    summary.test_accuracy = evaluation.accuracy;
    notify([&](Observer& observer) { observer.on_epoch_end({epoch, train_loss, evaluation.loss, evaluation.accuracy, train_time, train.size()}); });
  }

  if (summary.steps > 0) {
    summary.samples_per_s = static_cast<double>(train.size() * options.epochs) / summary.train_time.count();
    const double exposed = sum_over_ranks(comm, {parallel.exposed_time().count()})[0] / comm.size();
    summary.exposed_comm_share = exposed / summary.train_time.count();
  }
  notify([&](Observer& observer) { observer.on_end(summary); });
  return summary;
}

}  // namespace tw::train
