// SPDX-License-Identifier: Apache-2.0
// Linear recurrences g_t = J_t g_{t-1} + c_t over the steps of a rank. The start state arrives from the previous rank, after all other inputs.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tw/parallel_in_time/propagator.hpp>

namespace tw::layer_parallel {

/// A state as one tensor, in the layout of Jacobians: [..., S] for full ones, [..., k, width] for diagonal ones.
at::Tensor as_vector(const State& state, JacobianKind kind);
/// The inverse of as_vector(). @param like a state with these widths
State as_state(const at::Tensor& vector, const State& like, JacobianKind kind);
/// J v, with the same leading dimensions.
at::Tensor applied(const at::Tensor& jacobian, const at::Tensor& vector, JacobianKind kind);

/// Solves in chunks. First all chunks at the same time compute the affine map of their steps, step by step. Then the start of each chunk follows from
/// the chunk before, and all chunks at the same time advance from their starts. For n steps that is about sqrt(12 n) calls of LibTorch instead of n,
/// and little work is left once the start is known. The price is products of Jacobians. Where these cost more than they save, steps run one after the
/// other.
///
/// Values that are not finite become 0: a recurrence that overflows is useless, and a correction of 0 changes nothing.
class AffineScan {
 public:
  /// @param jacobians [n, ...] @param constants [n, ...], as vectors @param steps_in_all length of the recurrence over all ranks; n of them are here
  AffineScan(JacobianKind kind, at::Tensor jacobians, at::Tensor constants, int64_t steps_in_all);

  /// The state after the last step. @param start [...]
  at::Tensor end(const at::Tensor& start);
  /// The states after each step, [n, ...].
  at::Tensor all(const at::Tensor& start);

  /// Steps per chunk; n: the steps run one after the other.
  int64_t length() const noexcept { return length_; }

 private:
  void compose();
  at::Tensor starts_of_chunks(const at::Tensor& start) const;

  JacobianKind kind_;
  at::Tensor jacobians_;
  at::Tensor constants_;
  int64_t steps_;
  int64_t length_;
  at::Tensor matrices_;  // of all chunks
  at::Tensor offsets_;
};

/// The cheapest number of steps per chunk. @param steps n @param entries numbers in the Jacobian of a step @param matrix_size rows of one matrix
int64_t chunk_length(int64_t steps, int64_t steps_in_all, double entries, double matrix_size);

}  // namespace tw::layer_parallel
