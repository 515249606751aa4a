// SPDX-License-Identifier: Apache-2.0
// Random numbers along the `tensor` axis. Generators are in the same state on all its ranks, so that what is replicated draws the same everywhere,
// such as dropout of a row-parallel layer's output. What is split must draw different numbers on each rank, or one mask would drop the same units of
// every part: it draws within SplitRandom.
#pragma once
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <tw/autograd/generator.hpp>
#include <tw/tensor_parallel/split_module.hpp>

namespace tw::tensor_parallel {

/// While this lives, each rank draws numbers of its own from LibTorch's default generators. Afterwards the generators are again in the same state on
/// all ranks, one number further than before. Local, on all ranks of the axis alike.
/// Ref: Megatron-LM's random state of model-parallel regions.
class SplitRandom {
 public:
  /// @param comm of the `tensor` axis
  explicit SplitRandom(const Communicator& comm);

 private:
  uint64_t seed_;  // drawn before the generators are borrowed
  GeneratorGuard generators_;
};

/// torch::nn::Dropout for activations that are split along the `tensor` axis, such as those between a column-parallel and a row-parallel layer.
class SplitDropoutImpl : public SplitModule {
 public:
  /// @param comm of the `tensor` axis. @param p the probability that an element becomes 0, from 0 to 1
  explicit SplitDropoutImpl(const Communicator& comm, double p = 0.5);
  /// @param input this rank's slice. @return the same shape
  torch::Tensor forward(const torch::Tensor& input);

 private:
  double p_;
};
TORCH_MODULE(SplitDropout);

}  // namespace tw::tensor_parallel
