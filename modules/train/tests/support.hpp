// SPDX-License-Identifier: Apache-2.0
// Data and models for the trainer's tests: images whose bright row is the class, and a small network.
#pragma once
#include "mpi_test.hpp"

#include <torch/torch.h>

#include <tw/data/image_dataset.hpp>
#include <tw/data/tensor_dataset.hpp>
#include <tw/models/mlp.hpp>
#include <tw/train.hpp>

namespace tw::testing {

inline ImageDataset rows(int64_t samples) {
  torch::manual_seed(static_cast<uint64_t>(samples));
  auto images = torch::randint(60, {samples, 28, 28}, torch::kByte);
  const auto labels = (torch::arange(samples) % 10).to(torch::kByte);
  for (int64_t i = 0; i < samples; ++i) images[i][4 + 2 * (i % 10)].add_(180);
  return {images, labels, 10};
}

inline train::Model make_mlp() {
  torch::manual_seed(static_cast<uint64_t>(world().rank()));  // the Trainer must make them equal
  return train::model_of(models::Mlp(std::vector<int64_t>{784, 32, 10}));
}

/// A regression in float64 that a network of one hidden layer can learn: the sum of squares of 4 numbers.
inline TensorDataset squares(int64_t samples) {
  torch::manual_seed(5);
  const at::Tensor inputs = torch::rand({samples, 4}, torch::kDouble);
  return {inputs, inputs.square().sum(1, /*keepdim=*/true)};
}

/// With dropout, so that the model's random numbers matter.
inline train::Model make_regressor(double dropout, bool on_device = true) {
  torch::manual_seed(static_cast<uint64_t>(world().rank()));
  torch::nn::Sequential net(torch::nn::Linear(4, 16), torch::nn::Tanh(), torch::nn::Dropout(dropout), torch::nn::Linear(16, 1));
  net->to(torch::kDouble);
  if (on_device) place_module(net);
  return train::model_of(net.ptr(), [net](const at::Tensor& x) mutable { return net->forward(x); });
}

/// How ranks train one model: the axes along which they lie, and the options of these.
struct Way {
  std::string name = "every_step";
  std::vector<MeshAxis> axes = {{"data"}};
  train::ShardOptions shard = {};
  train::ReplicaOptions replicas = {};

  bool is_sharded() const { return axes.back().name == "shard"; }
};
inline const std::vector<MeshAxis> along_shard{{"shard"}};

/// Options for a run in its own folder that writes only what a test asks for.
inline train::Options quick(const std::string& name) {
  train::Options options;
  options.name = concat(name, device().is_cpu() ? "_" : "_device_", world().size());
  options.output = std::filesystem::path(::testing::TempDir()) / "tw_train";
  options.checkpoint.every_epochs = 0;
  return options;
}

inline std::vector<at::Tensor> copies(const train::Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : model.parameters) all.push_back(parameter.tensor.detach().clone());
  return all;
}

inline bool bitwise_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

}  // namespace tw::testing
