// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of networks.
#pragma once
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <tw/layer_parallel/layer_parallel.hpp>

namespace tw::layer_parallel {

/// du/dt of a layer.
struct DenseImpl : torch::nn::Module {
  explicit DenseImpl(int64_t width) : linear(register_module("linear", torch::nn::Linear(width, width))) {}
  torch::Tensor forward(const torch::Tensor& u) { return torch::tanh(linear(u)); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Dense);

inline double relative_difference(const torch::Tensor& ours, const torch::Tensor& theirs) {
  return (ours - theirs).norm().item<double>() / std::max(theirs.norm().item<double>(), 1e-300);
}

/// Compares the gradients of this rank's parameters with those of the same network in one process, within `tolerance` of the largest.
inline void expect_gradients_equal(const LayerParallel& net, const SerialNetwork& serial, double tolerance) {
  double largest = 0;
  for (const torch::Tensor& p : serial.parameters()) {
    if (p.requires_grad()) largest = std::max(largest, p.grad().norm().item<double>());
  }
  const auto parameters = net.named_parameters();
  for (const NamedShard& shard : net.shards()) {
    if (shard.kind != ShardKind::parameter || !parameters[shard.name].requires_grad()) continue;
    const size_t dot = shard.name.find('.');
    const std::vector<Layer>& layers = serial.layers(std::stoul(shard.name.substr(0, dot)));
    const auto theirs = [&](int64_t layer) {
      return layers.at(static_cast<size_t>(layer)).module->named_parameters()[shard.name.substr(dot + 1)].grad();
    };
    const torch::Tensor ours = parameters[shard.name].grad();
    ASSERT_TRUE(ours.defined()) << shard.name;
    const bool is_stack = layers.size() > 1;
    for (int64_t i = 0; i < (is_stack ? ours.size(0) : 1); ++i) {
      const int64_t layer = is_stack ? shard.offsets[0] + i : 0;
      EXPECT_LE(((is_stack ? ours[i] : ours) - theirs(layer)).norm().item<double>(), tolerance * largest) << shard.name << ", layer " << layer;
    }
  }
}

}  // namespace tw::layer_parallel
