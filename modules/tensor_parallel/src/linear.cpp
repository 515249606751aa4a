// SPDX-License-Identifier: Apache-2.0
#include <tw/tensor_parallel/linear.hpp>

#include <ATen/ops/linear.h>
#include <torch/nn/modules/linear.h>

#include <tw/base/contract.hpp>
#include <tw/comm/agreement.hpp>
#include <tw/tensor/tensor_spec.hpp>
#include <tw/tensor_parallel/operations.hpp>

#include "initial_values.hpp"
#include "part.hpp"

namespace tw::tensor_parallel {
namespace {

/// The whole LibTorch layer, equal on all ranks; each rank then keeps a slice. Collective. @param layer for messages.
torch::nn::Linear draw_whole(const Communicator& comm, const std::string& layer, int64_t in_features, int64_t out_features, bool bias) {
  expect_same_on_all_ranks(comm, "the sizes and options of a tensor-parallel layer", {layer});
  TW_EXPECTS(in_features > 0 && out_features > 0, layer, " needs sizes of at least 1");
  torch::nn::Linear whole(torch::nn::LinearOptions(in_features, out_features).bias(bias));
  expect_same_initial_values(comm, layer, *whole);
  return whole;
}

void expect_features(const torch::Tensor& input, int64_t features, const char* layer, const Communicator& comm) {
  TW_EXPECTS(input.dim() > 0 && input.size(-1) == features, layer, " expects an input of shape [..., ", features, "] on rank ", comm.rank(), " of ",
             comm.size(), ", got ", shape_text(input.sizes().vec()));
}

}  // namespace

ColumnParallelLinearImpl::ColumnParallelLinearImpl(const Communicator& comm, int64_t in_features, int64_t out_features,
                                                   const ColumnParallelLinearOptions& options)
    : SplitModule(comm), in_features_(in_features), out_features_(out_features), options_(options) {
  const std::string layer = concat("ColumnParallelLinear(", in_features, ", ", out_features, options.bias ? "" : ", without bias",
                                   options.gather_output ? ", gather_output" : "", ")");
  const torch::nn::Linear whole = draw_whole(comm, layer, in_features, out_features, options.bias);
  weight = register_slice("weight", whole->weight, 0);
  if (options.bias) bias = register_slice("bias", whole->bias, 0);
}

torch::Tensor ColumnParallelLinearImpl::forward(const torch::Tensor& input) {
  expect_features(input, in_features_, "ColumnParallelLinear", comm());
  const torch::Tensor output = at::linear(copy_to_ranks(comm(), input), weight, bias);
  return options_.gather_output ? gather_from_ranks(comm(), output, out_features_) : output;
}

RowParallelLinearImpl::RowParallelLinearImpl(const Communicator& comm, int64_t in_features, int64_t out_features,
                                             const RowParallelLinearOptions& options)
    : SplitModule(comm), in_features_(in_features), options_(options) {
  const std::string layer = concat("RowParallelLinear(", in_features, ", ", out_features, options.bias ? "" : ", without bias",
                                   options.input_is_parallel ? "" : ", input not parallel", ")");
  const torch::nn::Linear whole = draw_whole(comm, layer, in_features, out_features, options.bias);
  weight = register_slice("weight", whole->weight, 1);
  if (options.bias) bias = register_parameter("bias", whole->bias.detach());
}

torch::Tensor RowParallelLinearImpl::forward(const torch::Tensor& input) {
  expect_features(input, options_.input_is_parallel ? own_part(comm(), in_features_).count() : in_features_, "RowParallelLinear", comm());
  const torch::Tensor part = options_.input_is_parallel ? input : scatter_to_ranks(comm(), input);
  const torch::Tensor output = reduce_from_ranks(comm(), at::linear(part, weight));
  return options_.bias ? output + bias : output;
}

}  // namespace tw::tensor_parallel
