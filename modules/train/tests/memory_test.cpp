// SPDX-License-Identifier: Apache-2.0
// The summary's memory of each rank must match the pages on strategies.
#include "support.hpp"

namespace memory_test {

using tw::MemoryByUse;
using tw::MemoryUse;
using tw::testing::along_shard;
using tw::testing::Way;
using tw::testing::world;
using tw::train::Meeting;
using tw::train::Sharded;

constexpr int64_t width = 256;
constexpr double n = 8.0 * (4 * width + width + width * width + width + width + 1);  // bytes of the parameters

// With so few samples that all gradients exist at the peak.
tw::train::Summary train(const Way& way) {
  torch::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(4, width), torch::nn::Tanh(), torch::nn::Linear(width, width), torch::nn::Tanh(),
                            torch::nn::Linear(width, 1));
  net->to(torch::kDouble);
  tw::testing::place_module(net);
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::Adam adam(model.tensors(), torch::optim::AdamOptions(0.01));
  const auto data = tw::testing::squares(31);
  auto options = tw::testing::quick("memory_" + way.name);
  options.global_batch = 6;
  options.epochs = 2;
  options.shard = way.shard;
  options.replicas = way.replicas;
  return tw::train::Trainer(tw::Mesh(world(), way.axes), model, adam, tw::train::regression(), data, data, options).run();
}

// In units of the parameters' size. Slices are padded to cache lines, and Adam has a counter in addition to its two moments.
void expect_held(const Way& way, const std::array<double, 4>& sizes) {
  const std::string& name = way.name;
  const auto summary = train(way);
  ASSERT_EQ(summary.memory.size(), static_cast<size_t>(world().size()));
  for (const auto& [held, during, step] : summary.memory) {
    for (size_t use = 0; use < sizes.size(); ++use) {
      EXPECT_NEAR(static_cast<double>(held.bytes[use]) / n, sizes[use], 0.02) << name << ", " << name_of(static_cast<MemoryUse>(use));
    }
    EXPECT_GT(held[MemoryUse::activations], 0) << name;
    EXPECT_GT(step, 0) << name << ": before the second update there is no state";
  }
}

TEST(Memory, IsWhatEachWayKeeps) {
  const double share = 1.0 / world().size();
  const double unit = 1;                                            // all parameters
  const double bucket = tw::testing::device().is_cpu() ? unit : 0;  // in flight; where ranks share it, its memory is persistent
  const bool on_cpu = tw::testing::device().is_cpu();
  if (world().size() % 4 == 0) {
    Way both{.name = "shards_of_replicas", .axes = {{"data"}, {"shard", 2}}};
    expect_held(both, {0.5, 0.5, 1, unit + bucket});
    both.replicas = {.meet = Meeting::diloco, .period = 4};
    expect_held(both, {0.5, 0.5, 2, unit + bucket + 0.5});
    expect_held({.name = "groups", .replicas = {.meet = Meeting::diloco, .ranks_per_group = 2, .period = 4}}, {1, 1, 4, 1});
    return;
  }
  expect_held({.name = "every_step"}, {1, 1, 2, 0});
  expect_held({.name = "local_sgd", .replicas = {.meet = Meeting::local_sgd, .period = 4}}, {1, 1, 2, 1});
  expect_held({.name = "diloco", .replicas = {.meet = Meeting::diloco, .period = 4}}, {1, 1, 4, 1});
  expect_held({.name = "servers", .replicas = {.meet = Meeting::parameter_server, .period = 2}}, {1, 1, 2, share});
  if (world().size() == 1) return;  // nothing is sharded
  const auto sharded = [](const std::string& name, const tw::train::ShardOptions& shard) {
    return Way{.name = name, .axes = along_shard, .shard = shard};
  };
  expect_held(sharded("optimizer", {.what = Sharded::optimizer}), {1, 1, 2 * share, 0});
  expect_held(sharded("gradients", {.what = Sharded::gradients}), {1, share, 2 * share, bucket});
  expect_held(sharded("parameters", {}), {share, share, 2 * share, unit + bucket});
  if (on_cpu) expect_held(sharded("one_copy", {.what = Sharded::optimizer, .one_copy_per_node = true}), {share, 1, 2 * share, 0});
  if (on_cpu) expect_held(sharded("one_copy_in_slices", {.one_copy_per_node = true}), {share, share, 2 * share, bucket});
}

// Autograd keeps tanh's output.
TEST(Memory, ActivationsAreThoseOfTheBatch) {
  constexpr int64_t rows = 4096;
  torch::nn::Sequential net(torch::nn::Linear(4, width), torch::nn::Tanh(), torch::nn::Linear(width, 1));
  net->to(torch::kDouble);
  const auto model = tw::train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
  torch::optim::SGD sgd(model.tensors(), 0.01);
  const auto data = tw::testing::squares(rows * world().size());
  const tw::TensorDataset nothing(at::empty({0, 4}), at::empty({0, 1}));
  auto options = tw::testing::quick("memory_activations");
  options.batch_size = rows;
  options.epochs = 1;
  const auto summary = tw::train::Trainer(world(), model, sgd, tw::train::regression(), data, nothing, options).run();
  for (const auto& [held, during, step] : summary.memory) {
    EXPECT_EQ(during, "backward");
    // Output of tanh, the gradients by its output and by its input; plus the batch and single numbers per row.
    const double states = static_cast<double>(held[MemoryUse::activations]) / (8.0 * width * rows);
    EXPECT_NEAR(states, 3, 0.1);
  }
}

}  // namespace memory_test
