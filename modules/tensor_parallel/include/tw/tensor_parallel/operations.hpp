// SPDX-License-Identifier: Apache-2.0
// Differentiable communication for tensor-parallel layers. Every rank of the mesh axis `tensor` computes the same loss L from the same replicated
// values, so:
// - a replicated tensor has a replicated gradient, dL/dx, the same on all ranks;
// - a split tensor has a split gradient: each rank's slice of the gradient in one process;
// - a partial tensor, which stands for the sum over the ranks, has the gradient of that sum.
// <tw/comm/differentiable.hpp> defines the loss as the sum of the ranks' losses instead; do not mix the two headers in one graph.
//
// Split tensors are split along their last dimension: of `size` elements, rank r of P holds size * r / P to size * (r + 1) / P - 1, with quotients
// rounded down.
//
// Each function communicates in its forward pass (marked "Collective") or in its backward pass. All ranks must run both, in the same order. Inputs
// are floating point, of the same dtype on all ranks, and require a gradient on all ranks or on none. Every function throws ContractError for an
// input of the wrong dtype or shape.
// Ref: Shoeybi et al. 2019, Megatron-LM, section 3: the conjugate functions f and g.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/mpi/communicator.hpp>

namespace tw::tensor_parallel {

/// Passes a replicated `input`, of any shape, to computations that differ between ranks. Megatron's f. Backward: the sum of the ranks' gradients.
at::Tensor copy_to_ranks(const Communicator& comm, const at::Tensor& input);

/// The sum of the ranks' partial `input`s, of any shape; replicated. Megatron's g. Collective. Backward: the unchanged gradient.
at::Tensor reduce_from_ranks(const Communicator& comm, const at::Tensor& input);

/// The whole tensor, gathered from its slices; replicated. Collective. Backward: this rank's slice of the gradient.
/// @param input this rank's slice, shape [..., n]. @param size of the whole tensor's last dimension. @return shape [..., size].
at::Tensor gather_from_ranks(const Communicator& comm, const at::Tensor& input, int64_t size);

/// This rank's slice of a replicated `input` of shape [..., size]. Backward: the whole gradient, gathered from the ranks' slices.
at::Tensor scatter_to_ranks(const Communicator& comm, const at::Tensor& input);

}  // namespace tw::tensor_parallel
