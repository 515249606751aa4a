// SPDX-License-Identifier: Apache-2.0
// A small training that strategies divide among ranks, and that one process can also do alone.
#pragma once
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <functional>
#include <tw/mpi/communicator.hpp>
#include <tw/tensor/named_tensor.hpp>
#include <vector>

#include "part.hpp"

namespace tw::tool::selftest {

constexpr int steps = 2;
constexpr double learning_rate = 0.1;

/// tanh(W x + b), float64.
struct DenseImpl : torch::nn::Module {
  DenseImpl(int64_t inputs, int64_t outputs);
  at::Tensor forward(const at::Tensor& x);
  torch::nn::Linear linear;
};
TORCH_MODULE(Dense);

/// Layers one after the other. Parameters are named as in a torch::nn::Sequential.
struct Chain : torch::nn::Module {
  /// Draws the same values on every rank. @param widths of the input and of each layer's output
  explicit Chain(const std::vector<int64_t>& widths);
  at::Tensor forward(at::Tensor x);
  std::vector<Dense> layers;
};

struct Samples {
  at::Tensor inputs;   ///< [n, inputs]
  at::Tensor targets;  ///< [n, outputs]

  /// Part `part` of `parts` equal ones.
  Samples part(int64_t part, int64_t parts) const;
};

/// The samples of a step, the same on every rank. If `is_wrong`, all numbers are different.
Samples samples_of(int step, int64_t count, int64_t inputs, int64_t outputs, bool is_wrong = false);

at::Tensor loss_of(const at::Tensor& outputs, const at::Tensor& targets);

/// One process: `steps` steps of gradient descent with all samples.
void train(const std::vector<at::Tensor>& parameters, int64_t samples, int64_t inputs, int64_t outputs,
           const std::function<at::Tensor(const at::Tensor&)>& forward);

std::vector<NamedTensor> named_parameters(const torch::nn::Module& module);

/// Strategies add up contributions in a different order than one process. Over at most 96 terms of a smooth network's two steps, that is about 1e-15
/// of a tensor's norm, in float64; 1e-12 is a bound with a margin. It grows with the number of terms.
double tolerance(int64_t terms);

/// Strategies that need few ranks run on groups of at most 15 consecutive ranks, all at the same time. Collective.
Communicator group_of(const Communicator& comm);

}  // namespace tw::tool::selftest
