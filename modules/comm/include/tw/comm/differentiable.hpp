// SPDX-License-Identifier: Apache-2.0
// Differentiable collectives. The loss L is the sum of the ranks' losses L_r, so a value that reaches several ranks gets the sum of their gradients.
// For the mean, divide each L_r by the number of ranks P. Backward passes are collective too: all ranks run them, with these operations in the same
// order. The functions do not change their inputs, and can be differentiated twice. Inputs are floating point or complex. Every function throws
// ContractError for an unsupported input or `op`. In the formulas, rank r has the input x_r, the result y_r and its gradient dL_r/dy_r.
#pragma once
#include <ATen/core/Tensor.h>

#include <tw/base/element.hpp>
#include <tw/mpi/communicator.hpp>

namespace tw::differentiable {

/// y = sum_r x_r, or the average of the x_r. dL/dx_r = sum_q dL_q/dy_q, divided by P for the average. Collective.
/// @param input any shape. @param op sum or average.
at::Tensor allreduce(const Communicator& comm, const at::Tensor& input, ReduceOp op);

/// y[r] = x_r: shape [P, ...]. dL/dx_r = sum_q (dL_q/dy_q)[r]. Collective.
at::Tensor allgather(const Communicator& comm, const at::Tensor& input);

/// y_r = sum_q x_q[r], or the average of the x_q[r]. dL/dx_q[r] = dL_r/dy_r, divided by P for the average. Collective.
/// @param input shape [P, ...]; the result has shape [...]. @param op sum or average.
at::Tensor reduce_scatter(const Communicator& comm, const at::Tensor& input, ReduceOp op);

/// y_r[q] = x_q[r]. dL/dx_q[r] = dL_r/dy_r[q]. Collective. @param input shape [P, ...]; the result has the same shape.
at::Tensor alltoall(const Communicator& comm, const at::Tensor& input);

/// y_r = x_root. dL/dx_root = sum_r dL_r/dy_r; the other ranks' inputs get zero gradients. Collective.
at::Tensor broadcast(const Communicator& comm, const at::Tensor& input, Rank root);

}  // namespace tw::differentiable
