// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>

namespace tw::tool::selftest {

DenseImpl::DenseImpl(int64_t inputs, int64_t outputs) : linear(register_module("linear", torch::nn::Linear(inputs, outputs))) { to(at::kDouble); }

at::Tensor DenseImpl::forward(const at::Tensor& x) { return linear(x).tanh(); }

Chain::Chain(const std::vector<int64_t>& widths) {
  torch::manual_seed(5);
  for (size_t i = 1; i < widths.size(); ++i) layers.push_back(register_module(std::to_string(i - 1), Dense(widths[i - 1], widths[i])));
}

at::Tensor Chain::forward(at::Tensor x) {
  for (Dense& layer : layers) x = layer(x);
  return x;
}

Samples Samples::part(int64_t part, int64_t parts) const {
  const int64_t count = inputs.size(0) / parts;
  return {inputs.narrow(0, part * count, count), targets.narrow(0, part * count, count)};
}

Samples samples_of(int step, int64_t count, int64_t inputs, int64_t outputs, bool is_wrong) {
  torch::manual_seed((is_wrong ? 1500U : 1000U) + static_cast<uint64_t>(step));
  return {at::randn({count, inputs}, at::kDouble), at::randn({count, outputs}, at::kDouble)};
}

at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& targets) { return at::mse_loss(outputs, targets); }

void train(const std::vector<at::Tensor>& parameters, int64_t samples, int64_t inputs, int64_t outputs,
           const std::function<at::Tensor(const at::Tensor&)>& forward) {
  torch::optim::SGD sgd(parameters, learning_rate);
  for (int step = 0; step < steps; ++step) {
    const Samples all = samples_of(step, samples, inputs, outputs);
    sgd.zero_grad();
    loss_of(forward(all.inputs), all.targets).backward();
    sgd.step();
  }
}

std::vector<NamedTensor> named_parameters(const torch::nn::Module& module) {
  std::vector<NamedTensor> all;
  for (const auto& entry : module.named_parameters()) all.push_back({entry.key(), entry.value()});
  return all;
}

double tolerance(int64_t terms) { return 1e-12 * std::max(1.0, static_cast<double>(terms) / 96); }

Communicator group_of(const Communicator& comm) {
  const int groups = std::max(1, comm.size() / 8);
  return comm.split(static_cast<int>(int64_t{comm.rank()} * groups / comm.size()), comm.rank());
}

}  // namespace tw::tool::selftest
