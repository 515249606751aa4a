// SPDX-License-Identifier: Apache-2.0
// Strategies in which each rank trains on its own samples, compared with one process that trains on all samples.
#include <ATen/TensorOperators.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <tw/data_parallel/data_parallel.hpp>
#include <tw/data_parallel/diloco.hpp>
#include <tw/data_parallel/fully_sharded.hpp>
#include <tw/data_parallel/local_sgd.hpp>
#include <tw/gradients/sharded_optimizer.hpp>
#include <tw/parameter_server/downpour.hpp>
#include <tw/state/module_state.hpp>

#include "comparison.hpp"
#include "training.hpp"

namespace tw::tool::selftest {
namespace {

const std::vector<int64_t> layer_widths{7, 13, 11, 3};
constexpr int64_t samples_per_rank = 4;

Samples samples_here(const Communicator& comm, const Conditions& conditions, int step) {
  return samples_of(step, samples_per_rank * comm.size(), layer_widths.front(), layer_widths.back(), conditions.is_wrong_here)
      .part(comm.rank(), comm.size());
}

std::vector<NamedTensor> trained_by_one_process(Chain& net, int ranks) {
  train(net.parameters(), samples_per_rank * ranks, layer_widths.front(), layer_widths.back(), [&](const at::Tensor& x) { return net.forward(x); });
  return named_parameters(net);
}

/// The steps of each rank with its own samples. @param update called after each backward pass
void train_here(const Communicator& comm, const Conditions& conditions, Chain& net, const std::function<void()>& zero_grad,
                const std::function<void()>& update) {
  for (int step = 0; step < steps; ++step) {
    const Samples mine = samples_here(comm, conditions, step);
    zero_grad();
    loss_of(net.forward(mine.inputs), mine.targets).backward();
    update();
  }
}
void train_here(const Communicator& comm, const Conditions& conditions, Chain& net, torch::optim::Optimizer& optimizer) {
  train_here(comm, conditions, net, [&] { optimizer.zero_grad(); }, [&] { optimizer.step(); });
}

Outcome compare_with_one_process(const Communicator& comm, const std::vector<NamedShard>& shards) {
  Chain reference(layer_widths);
  Comparison comparison;
  comparison.expect_near(shards, trained_by_one_process(reference, comm.size()), tolerance(samples_per_rank * comm.size()));
  return comparison.outcome();
}

/// Replicas that take the mean of their parameters after each step of gradient descent have made a step with the mean gradient.
Outcome compare_replicas(const Communicator& comm, const Conditions& conditions, Chain& net, const std::function<void()>& meet) {
  torch::optim::SGD sgd(net.parameters(), learning_rate);
  const auto update = [&] {
    sgd.step();
    meet();
  };
  train_here(comm, conditions, net, [&] { sgd.zero_grad(); }, update);
  return compare_with_one_process(comm, module_shards(net));
}

}  // namespace

Outcome compare_data_parallel(const Communicator& comm, const Conditions& conditions) {
  Chain net(layer_widths);
  const DataParallel parallel(comm, net, {.reduction = Reduction::mean, .buckets = {.first_bucket_bytes = 256, .bucket_bytes = 1024}});
  torch::optim::SGD sgd(net.parameters(), learning_rate);
  train_here(comm, conditions, net, sgd);
  return compare_with_one_process(comm, module_shards(net));
}

Outcome compare_sharded_optimizer(const Communicator& comm, const Conditions& conditions) {
  Chain net(layer_widths);
  DataParallel parallel(comm, net, {.reduction = Reduction::mean, .sharding = Sharding::slices});
  const torch::optim::SGD sgd(net.parameters(), learning_rate);
  ShardedOptimizer optimizer(parallel.reducer(), parallel.parameters(), optimizer_like(sgd, parallel.parameters()));
  train_here(comm, conditions, net, [&] { optimizer.zero_grad(); }, [&] { optimizer.step(); });
  return compare_with_one_process(comm, module_shards(net));
}

Outcome compare_fully_sharded(const Communicator& comm, const Conditions& conditions) {
  Chain net(layer_widths);
  const FullySharded sharded(comm, net, {.reduction = Reduction::mean, .unit_bytes = 1024});
  torch::optim::SGD sgd(sharded.slices(), learning_rate);
  train_here(comm, conditions, net, sgd);
  return compare_with_one_process(comm, sharded.shards());
}

Outcome compare_local_sgd(const Communicator& comm, const Conditions& conditions) {
  Chain net(layer_widths);
  LocalSgd replicas(comm, net, {.period = 1});
  return compare_replicas(comm, conditions, net, [&] { replicas.step(); });
}

Outcome compare_diloco(const Communicator& comm, const Conditions& conditions) {
  Chain net(layer_widths);
  DiLoCo replicas(comm, net, {.period = 1, .outer_learning_rate = 1, .outer_momentum = 0, .nesterov = false});
  return compare_replicas(comm, conditions, net, [&] { replicas.step(); });
}

// All workers compute their first step from the same values. The centre is then x - lr sum g: a step of one process with the sum of their losses.
Outcome compare_parameter_server(const Communicator& comm, const Conditions& conditions) {
  Comparison comparison;
  for (const bool dedicated : {false, true}) {
    const int workers = comm.size() - (dedicated ? 1 : 0);
    Chain net(layer_widths);
    parameter_server::Downpour downpour(
        comm, net.parameters(),
        dedicated ? parameter_server::DownpourOptions{.roles = {.servers = {0}, .dedicated = true}} : parameter_server::DownpourOptions{});
    const int worker = comm.rank() - (dedicated ? 1 : 0);
    if (worker >= 0) {
      const Samples all = samples_of(0, samples_per_rank * workers, layer_widths.front(), layer_widths.back(), conditions.is_wrong_here);
      const Samples mine = all.part(worker, workers);
      torch::optim::SGD sgd(net.parameters(), learning_rate);
      loss_of(net.forward(mine.inputs), mine.targets).backward();
      sgd.step();
      downpour.step();
    }
    downpour.finish();

    Chain reference(layer_widths);
    torch::optim::SGD sgd(reference.parameters(), learning_rate);
    const Samples all = samples_of(0, samples_per_rank * workers, layer_widths.front(), layer_widths.back());
    (loss_of(reference.forward(all.inputs), all.targets) * workers).backward();  // of equal parts
    sgd.step();
    comparison.expect_near(module_shards(net), named_parameters(reference), tolerance(samples_per_rank * workers));
  }
  return comparison.outcome();
}

}  // namespace tw::tool::selftest
