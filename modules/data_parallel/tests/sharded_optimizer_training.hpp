// SPDX-License-Identifier: Apache-2.0
// A network, its samples, and all modes of sharding an optimizer.
#pragma once
#include <torch/torch.h>

#include <tw/data_parallel.hpp>

#include "elementwise_optimizers.hpp"
#include "mpi_test.hpp"

namespace tw::testing::sharded_optimizer {

inline torch::nn::Sequential make_net(c10::ScalarType dtype = torch::kDouble) {
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Linear(7, 13), torch::nn::Tanh(), torch::nn::Linear(13, 11), torch::nn::Tanh(), torch::nn::Linear(11, 3));
  net->to(dtype);
  tw::testing::place_module(net);
  return net;
}

struct Samples {
  at::Tensor inputs;
  at::Tensor targets;
};

constexpr int64_t each = 6;  // samples per rank

inline Samples samples_of(int64_t step, int64_t begin, int64_t count, c10::ScalarType dtype = torch::kDouble) {
  torch::manual_seed(static_cast<uint64_t>(1000 + step));
  const at::Tensor inputs = torch::randn({4 * each, 7}, torch::kDouble).to(dtype);
  const at::Tensor targets = torch::randint(3, {4 * each}, torch::kLong);
  return {place(inputs.narrow(0, begin, count)), place(targets.narrow(0, begin, count))};
}

inline at::Tensor loss_of(torch::nn::Sequential& net, const Samples& samples) {
  return torch::cross_entropy_loss(net->forward(samples.inputs), samples.targets);
}

inline Samples all_samples(int64_t step) { return samples_of(step, 0, world().size() * each); }
inline Samples my_samples(int64_t step) { return samples_of(step, world().rank() * each, each); }

inline void expect_equal(const torch::nn::Sequential& ours, const torch::nn::Sequential& reference, const std::string& what) {
  const auto expected = reference->named_parameters();
  for (const auto& parameter : ours->named_parameters()) {
    const at::Tensor& other = expected[parameter.key()];
    EXPECT_LE((parameter.value() - other).norm().item<double>(), 1e-12 * other.norm().item<double>()) << what << " " << parameter.key();
  }
}

struct Mode {
  const char* name;
  tw::Sharding sharding = tw::Sharding::slices;
  bool release = false;
  bool one_copy_per_node = false;
};
// The modes available for this device and topology. Collective.
inline std::vector<Mode> modes() {
  std::vector<Mode> all{{"slices"},
                        {"released slices", tw::Sharding::slices, true},
                        {"tensors", tw::Sharding::tensors},
                        {"released tensors", tw::Sharding::tensors, true}};
  const bool one_node = tw::find_topology(world()).nodes == 1;
  if (tw::testing::device().is_cpu() && one_node) all.push_back({"slices, one copy a node", tw::Sharding::slices, false, true});
  return all;
}

/// A network with sharded gradients, and its optimizer.
struct Sharded {
  explicit Sharded(const std::string& kind, const Mode& mode, double max_norm = 0)
      : prototype(make_optimizer(kind, net->parameters())),
        parallel(world(), *net,
                 {.reduction = tw::Reduction::mean,
                  .buckets = {.first_bucket_bytes = 256, .bucket_bytes = 1024},
                  .sharding = mode.sharding,
                  .release = mode.release}),
        optimizer(parallel.reducer(), parallel.parameters(), tw::optimizer_like(*prototype, parallel.parameters()),
                  {.max_gradient_norm = max_norm, .one_copy_per_node = mode.one_copy_per_node}) {}

  void step(int64_t number) {
    loss_of(net, my_samples(number)).backward();
    optimizer.step();
  }

  torch::nn::Sequential net = make_net();
  std::unique_ptr<torch::optim::Optimizer> prototype;
  tw::DataParallel parallel;
  tw::ShardedOptimizer optimizer;
};

}  // namespace tw::testing::sharded_optimizer
