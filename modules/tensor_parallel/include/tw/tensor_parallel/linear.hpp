// SPDX-License-Identifier: Apache-2.0
// Linear layers of which every rank of the `tensor` axis holds a part. A column-parallel layer, something element by element, and a row-parallel
// layer make an MLP that communicates twice a step: one all-reduce of the output in the forward pass, one of the input's gradient in the backward
// pass.
//
// Every rank computes the same loss (see <tw/tensor_parallel/operations.hpp>); then gradients of split parameters are slices of what one process
// would have, and gradients of replicated ones the same on all ranks. Nothing is left to be reduced along this axis; along a `data` axis,
// DataParallel does.
//
// A layer of P ranks has the parameters that torch::nn::Linear would have, seed for seed: each rank draws the whole layer, which takes its memory for
// that moment, and keeps its slice. So generators must be in the same state on all ranks of the axis: call torch::manual_seed() alike.
//
// Forward and backward passes are collective. Of n features, rank r of P has those from n r / P to n (r + 1) / P, rounded down.
// Ref: Shoeybi et al. 2019, Megatron-LM, section 3.
#pragma once
#include <torch/nn/pimpl.h>

#include <tw/tensor_parallel/split_module.hpp>

namespace tw::tensor_parallel {

struct ColumnParallelLinearOptions {
  bool bias = true;
  /// Whether every rank gets the whole output. Otherwise each keeps its features, as a row-parallel layer takes them.
  bool gather_output = false;
};

/// y = x A^T + b with the rows of A, the output features, split: named after A^T, as in the paper.
class ColumnParallelLinearImpl : public SplitModule {
 public:
  /// Collective. @param comm of the `tensor` axis; borrowed. @param in_features, out_features of the whole layer, at least 1.
  /// @throws ContractError on every rank, naming ranks, when sizes, options or drawn parameters differ; naming sizes below 1.
  ColumnParallelLinearImpl(const Communicator& comm, int64_t in_features, int64_t out_features, const ColumnParallelLinearOptions& options = {});

  /// @param input replicated, [..., in_features].
  /// @return this rank's features, [..., out_features / P]; with `gather_output` all, [..., out_features], replicated.
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;  ///< this rank's rows, [out_features / P, in_features]
  torch::Tensor bias;    ///< this rank's, [out_features / P]; undefined without

 private:
  int64_t in_features_;
  int64_t out_features_;
  ColumnParallelLinearOptions options_;
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelLinearOptions {
  bool bias = true;
  /// The input is this rank's features, such as a column-parallel layer's output. Otherwise it is whole and replicated, and each rank takes its part.
  bool input_is_parallel = true;
};

/// y = x A^T + b with the columns of A, the input features, split. The ranks' partial products are summed, and b is added once.
class RowParallelLinearImpl : public SplitModule {
 public:
  /// Collective. @param comm of the `tensor` axis; borrowed. @param in_features, out_features of the whole layer, at least 1.
  /// @throws ContractError on every rank, naming ranks, when sizes, options or drawn parameters differ; naming sizes below 1.
  RowParallelLinearImpl(const Communicator& comm, int64_t in_features, int64_t out_features, const RowParallelLinearOptions& options = {});

  /// @param input this rank's features, [..., in_features / P]; without `input_is_parallel` all, [..., in_features], replicated.
  /// @return [..., out_features], replicated.
  torch::Tensor forward(const torch::Tensor& input);

  torch::Tensor weight;  ///< this rank's columns, [out_features, in_features / P]
  torch::Tensor bias;    ///< replicated, [out_features]; undefined without

 private:
  int64_t in_features_;
  RowParallelLinearOptions options_;
};
TORCH_MODULE(RowParallelLinear);

}  // namespace tw::tensor_parallel
