// SPDX-License-Identifier: Apache-2.0
// Linear layers that are split over the ranks of the mesh axis `tensor`. A column-parallel layer, an element-wise activation and a row-parallel layer
// form an MLP that communicates twice per training step: one all-reduce of the output in the forward pass, and one of the input's gradient in the
// backward pass.
//
// Every rank must compute the same loss (see <tw/tensor_parallel/operations.hpp>). Gradients of split parameters are then slices of the gradients in
// one process, and gradients of replicated parameters are equal on all ranks. So gradients need no reduction along this axis; along a mesh axis
// `data`, DataParallel reduces them.
//
// For a given seed, the slices on P ranks together equal a torch::nn::Linear: each rank draws the whole layer, which temporarily needs memory for all
// of it, and keeps its slice. So generators must be in the same state on all ranks of the axis: call torch::manual_seed() with the same seed.
//
// Forward and backward passes are collective. Of n features, rank r of P holds n * r / P to n * (r + 1) / P - 1, with quotients rounded down.
// Ref: Shoeybi et al. 2019, Megatron-LM, section 3.
#pragma once
#include <torch/nn/pimpl.h>

#include <tw/tensor_parallel/split_module.hpp>

namespace tw::tensor_parallel {

struct ColumnParallelLinearOptions {
  bool bias = true;
  /// Whether every rank gets the whole output. Otherwise each keeps its own features, as input for a row-parallel layer.
  bool gather_output = false;
};

/// A linear layer y = x * A^T + b whose output features, the columns of A^T, are split.
class ColumnParallelLinearImpl : public SplitModule {
 public:
  /// Collective. @param comm the axis `tensor`; shared, not duplicated. @param in_features, out_features sizes of the whole layer, at least 1.
  /// @throws ContractError on every rank, naming ranks, if sizes, options or drawn parameters differ between ranks; also for sizes below 1.
  ColumnParallelLinearImpl(const Communicator& comm, int64_t in_features, int64_t out_features, const ColumnParallelLinearOptions& options = {});

  /// @param input replicated, [..., in_features].
  /// @return this rank's features, [..., out_features / P]; with `gather_output` all features, [..., out_features], replicated.
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;  ///< this rank's rows, [out_features / P, in_features]
  torch::Tensor bias;    ///< this rank's part, [out_features / P]; undefined without bias

 private:
  int64_t in_features_;
  int64_t out_features_;
  ColumnParallelLinearOptions options_;
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelLinearOptions {
  bool bias = true;
  /// Whether forward() takes only this rank's features, such as a column-parallel layer's output. Otherwise the input is whole and replicated, and
  /// each rank uses its part.
  bool input_is_parallel = true;
};

/// A linear layer y = x * A^T + b whose input features, the rows of A^T, are split. The ranks' partial products are summed, and b is added once.
class RowParallelLinearImpl : public SplitModule {
 public:
  /// Collective. @param comm the axis `tensor`; shared, not duplicated. @param in_features, out_features sizes of the whole layer, at least 1.
  /// @throws ContractError on every rank, naming ranks, if sizes, options or drawn parameters differ between ranks; also for sizes below 1.
  RowParallelLinearImpl(const Communicator& comm, int64_t in_features, int64_t out_features, const RowParallelLinearOptions& options = {});

  /// @param input this rank's features, [..., in_features / P]; without `input_is_parallel` all features, [..., in_features], replicated.
  /// @return [..., out_features], replicated.
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;  ///< this rank's columns, [out_features, in_features / P]
  torch::Tensor bias;    ///< replicated, [out_features]; undefined without bias

 private:
  int64_t in_features_;
  RowParallelLinearOptions options_;
};
TORCH_MODULE(RowParallelLinear);

}  // namespace tw::tensor_parallel
