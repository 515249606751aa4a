// SPDX-License-Identifier: Apache-2.0
// Random numbers along the mesh axis `tensor`. LibTorch's generators must have the same state on all ranks of the axis, so that replicated
// computations, such as dropout of a row-parallel layer's output, draw the same numbers. Split computations must draw different numbers on each rank;
// otherwise one mask would drop the same units of every slice. Use SplitRandom for split computations.
#pragma once
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <tw/autograd/generator.hpp>
#include <tw/graph/random_stream.hpp>
#include <tw/tensor_parallel/split_module.hpp>

namespace tw::tensor_parallel {

/// During the lifetime of a SplitRandom, each rank draws different numbers from LibTorch's default generators. Afterwards the generators have the
/// same state on all ranks again; that of the CPU has advanced by one number. Local; use it on all ranks of the axis alike.
/// Ref: Megatron-LM's random state of model-parallel regions.
class SplitRandom {
 public:
  /// @param comm the `tensor` axis
  explicit SplitRandom(const Communicator& comm);

 private:
  uint64_t seed_;  // drawn before generators_ saves the state
  GeneratorGuard generators_;
  graph::RandomStream stream_;  // for captured graphs, which draw their own numbers
};

/// torch::nn::Dropout for activations that are split along the axis `tensor`, such as those between a column-parallel and a row-parallel layer.
class SplitDropoutImpl : public SplitModule {
 public:
  /// @param comm the `tensor` axis. @param p the probability that an element becomes 0, from 0 to 1
  explicit SplitDropoutImpl(const Communicator& comm, double p = 0.5);
  /// @param input this rank's slice. @return the same shape
  torch::Tensor forward(const torch::Tensor& input);

 private:
  double p_;
};
TORCH_MODULE(SplitDropout);

}  // namespace tw::tensor_parallel
